"""Claims of an envelope for a subscription: whoever holds it may push, and passes again by the same receipt.

           absent, or expired
    claim ────────────────────▶ held by receipt R ──┬─ R comes again ─────────▶ passes
                                                    └─ another receipt comes ─▶ duplicate

One conditional put. Expiry is part of the condition, since DynamoDB removes what has expired days late. The lock on a
page of a fan-out is the same, with a message's token for the receipt.
"""

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from clarion.rows import DynamoItem, item_of
from clarion.tables import PageLock, PushRecord

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import PutItemOutputTypeDef

_HELD = "#holder = :holder AND #ttl > :now"
_FREE = "attribute_not_exists(#holder) OR #ttl <= :now OR #holder = :holder"


class Claim(Enum):
    NEW = auto()
    """It was free."""
    HELD = auto()
    """The same receipt has it already: this is a retry."""
    TAKEN = auto()
    """Another receipt has it."""


class ClaimRequest(NamedTuple):
    """What is written as a `PushRecord` if it is free."""

    subscription_id: str
    envelope_id: bytes
    receipt: str
    claimed_at: int
    ttl: int

    @property
    def row(self) -> DynamoItem:
        return item_of(PushRecord, self._asdict())


class Claims:
    def __init__(self, dynamodb: "DynamoDBClient") -> None:
        self._dynamodb = dynamodb

    def take(self, asked: ClaimRequest) -> Claim:
        """Claim it for `asked.receipt` if it is free at `asked.claimed_at`."""
        try:
            answer = self._put(asked.row, _FREE, "receipt", asked.claimed_at)
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return Claim.TAKEN
        before = answer.get("Attributes", {}).get("receipt")
        return Claim.HELD if before == {"S": asked.receipt} else Claim.NEW

    def renew(self, asked: ClaimRequest) -> Claim | None:
        """As `take`, but without claiming what is free: None then."""
        try:
            self._put(asked.row, _HELD, "receipt", asked.claimed_at)
        except self._dynamodb.exceptions.ConditionalCheckFailedException as refusal:
            item: Any = refusal.response.get("Item")
            taken = item and int(item["ttl"]["N"]) > asked.claimed_at // 1000
            return Claim.TAKEN if taken else None
        return Claim.HELD

    def lock(self, page: PageLock, now: int) -> bool:
        """Lock a page for its token, unless another token has it. `now` is in UNIX milliseconds."""
        try:
            self._put(page.serialize(), _FREE, "token", now)
        except self._dynamodb.exceptions.ConditionalCheckFailedException:
            return False
        return True

    def _put(self, item: DynamoItem, condition: str, holder: str, now: int) -> "PutItemOutputTypeDef":
        """`holder` is the column that names it."""
        return self._dynamodb.put_item(
            TableName=PushRecord.Meta.table_name,
            Item=item,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#ttl": "ttl", "#holder": holder},
            ExpressionAttributeValues={":now": {"N": str(now // 1000)}, ":holder": item[holder]},
            ReturnValues="ALL_OLD",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
