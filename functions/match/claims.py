"""Claims of a statement for a subscription: whoever holds it may push, and comes through again by the same receipt.

           absent, or expired
    claim ────────────────────▶ held by receipt R ──┬─ R comes again ─────────▶ passes
                                                    └─ another receipt comes ─▶ duplicate

One conditional put. Expiry is part of the condition, since DynamoDB removes what has expired days late.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING

from clarion.tables import PushRecord

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

LONGEST = 30 * 24 * 3600
"""Seconds. A statement that never expires is pushed again if a node shows it as new after more than this."""
SLACK = 3600
"""Seconds that a claim outlives its statement, for retries and clocks: from its expiry on no node shows it as new."""
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

    def exists(self, record: PushRecord) -> bool:
        """Whether anybody holds the claim at `record.claimed_at`."""
        try:
            held = PushRecord.get(record.subscription_id, record.statement_hash, consistent_read=True)
        except PushRecord.DoesNotExist:
            return False
        return held.ttl > record.claimed_at // 1000

    def take(self, record: PushRecord) -> Claim:
        """Claim it for `record.receipt` if it is free at `record.claimed_at`."""
        now = str(record.claimed_at // 1000)
        try:
            answer = self._dynamodb.put_item(
                TableName=PushRecord.Meta.table_name,
                Item=record.serialize(),
                ConditionExpression=_FREE,
                ExpressionAttributeNames={"#ttl": "ttl"},
                ExpressionAttributeValues={":now": {"N": now}, ":receipt": {"S": record.receipt}},
                ReturnValues="ALL_OLD",
            )
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return Claim.TAKEN
        before = answer.get("Attributes", {}).get("receipt")
        return Claim.HELD if before == {"S": record.receipt} else Claim.NEW
