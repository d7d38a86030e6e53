"""Claims of a statement for a subscription: whoever holds it may push, and comes through again by the same receipt.

           absent, or expired
    claim ────────────────────▶ held by receipt R ──┬─ R comes again ─────────▶ passes
                                                    └─ another receipt comes ─▶ duplicate

One conditional put. Expiry is part of the condition, since DynamoDB removes what has expired days late.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from clarion.tables import PushRecord

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import PutItemOutputTypeDef

LONGEST = 30 * 24 * 3600
"""Seconds. A statement that never expires is pushed again if a node shows it as new after more than this."""
SLACK = 3600
"""Seconds that a claim outlives its statement, for retries and clocks: from its expiry on no node shows it as new."""
_HELD = "receipt = :receipt AND #ttl > :now"
_FREE = "attribute_not_exists(receipt) OR #ttl <= :now OR receipt = :receipt"


class Claim(Enum):
    NEW = auto()
    """It was free."""
    HELD = auto()
    """The same receipt has it already: this is a retry."""
    TAKEN = auto()
    """Another receipt has it."""


def lasts_until(expires_at: int, now: int) -> int:
    """UNIX seconds, as are the arguments."""
    return min(expires_at + SLACK, now + LONGEST)


class Claims:
    def __init__(self, dynamodb: "DynamoDBClient") -> None:
        self._dynamodb = dynamodb

    def take(self, record: PushRecord) -> Claim:
        """Claim it for `record.receipt` if it is free at `record.claimed_at`."""
        try:
            answer = self._put(record, _FREE)
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return Claim.TAKEN
        before = answer.get("Attributes", {}).get("receipt")
        return Claim.HELD if before == {"S": record.receipt} else Claim.NEW

    def renew(self, record: PushRecord) -> Claim | None:
        """As `take`, but without claiming what is free: None then."""
        try:
            self._put(record, _HELD)
        except self._dynamodb.exceptions.ConditionalCheckFailedException as refusal:
            item: Any = refusal.response.get("Item")
            taken = item and int(item["ttl"]["N"]) > record.claimed_at // 1000
            return Claim.TAKEN if taken else None
        return Claim.HELD

    def _put(self, record: PushRecord, condition: str) -> "PutItemOutputTypeDef":
        return self._dynamodb.put_item(
            TableName=PushRecord.Meta.table_name,
            Item=record.serialize(),
            ConditionExpression=condition,
            ExpressionAttributeNames={"#ttl": "ttl"},
            ExpressionAttributeValues={
                ":now": {"N": str(record.claimed_at // 1000)},
                ":receipt": {"S": record.receipt},
            },
            ReturnValues="ALL_OLD",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
