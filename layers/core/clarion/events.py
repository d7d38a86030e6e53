"""What Clarion tells the lake: one flat JSON line for each decision, by way of Firehose. Never a push token.

Firehose bills each record as at least 5 KB, so the lines of one invocation travel packed together.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from clarion.decisions import NotificationDecision, NotifyType, PushDecision, PushType, StatementDecision
from clarion.messages import HexBytes, Milliseconds

if TYPE_CHECKING:
    from mypy_boto3_firehose import FirehoseClient

RECORD_BYTES = 900_000
"""Firehose takes records of up to 1,000 KiB; https://docs.aws.amazon.com/firehose/latest/dev/limits.html"""
RECORDS_PER_CALL = 4


class Event(BaseModel):
    """`at` is when it was decided."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    at: Milliseconds


class StatementEvent(Event):
    """`receipt` ties together all that came of one observed statement."""

    receipt: UUID
    statement_hash: HexBytes | None


class StatementDecided(StatementEvent):
    event: Literal["statement"] = "statement"
    decision: StatementDecision
    observed_at: Milliseconds
    sender_pubkey: HexBytes | None = None
    reason: str | None = None


class NotificationDecided(StatementEvent):
    event: Literal["notification"] = "notification"
    decision: NotificationDecision
    subscription_id: UUID
    client_id: HexBytes
    notify_type: NotifyType
    sender_pubkey: HexBytes
    topic: HexBytes


class PushTried(StatementEvent):
    """`provider_id` is APNs' `apns-id` or FCM's message name; `latency_ms` counts from `observed_at`."""

    event: Literal["push"] = "push"
    decision: PushDecision
    subscription_id: UUID
    notify_type: NotifyType
    attempt: int
    latency_ms: int
    status: int | None = None
    reason: str | None = None
    provider_id: str | None = None


class SubscriptionChanged(Event):
    event: Literal["subscription"] = "subscription"
    change: Literal["registered", "removed"]
    subscription_id: UUID
    client_id: HexBytes
    notify_type: NotifyType


class RuleSetEvent(Event):
    """Events of one subscription are in the order of their `revision`; those of one revision took effect together."""

    subscription_id: UUID
    client_id: HexBytes
    generation: int
    revision: int


class RulesReplaced(RuleSetEvent):
    """From here on no rule of an earlier generation is in force; a `RuleChanged` follows for each that now is."""

    event: Literal["rules"] = "rules"
    rule_count: int


class RuleChanged(RuleSetEvent):
    event: Literal["rule"] = "rule"
    change: Literal["added", "removed"]
    sender_pubkey: HexBytes
    topic: HexBytes
    push_type: PushType | None = None


class EventLog:
    """Collects the events of one invocation and hands them to Firehose at its end."""

    def __init__(self, firehose: "FirehoseClient", stream: str) -> None:
        self._firehose = firehose
        self._stream = stream
        self._lines: list[bytes] = []

    def add(self, event: Event) -> None:
        self._lines.append(event.model_dump_json(exclude_none=True).encode() + b"\n")

    def flush(self) -> int:
        """Send what was collected and return how many lines Firehose did not take, after the SDK's own retries."""
        lines, self._lines = self._lines, []
        records = list(_packed(lines))
        lost = 0
        for start in range(0, len(records), RECORDS_PER_CALL):
            lost += self._put(records[start : start + RECORDS_PER_CALL])
        return lost

    def _put(self, records: list[bytes]) -> int:
        entries = [{"Data": record} for record in records]
        answer = self._firehose.put_record_batch(DeliveryStreamName=self._stream, Records=entries)  # type: ignore[arg-type] # the stub's TypedDict
        if not answer["FailedPutCount"]:
            return 0
        failed = [
            record for record, told in zip(records, answer["RequestResponses"], strict=True) if "ErrorCode" in told
        ]
        return sum(record.count(b"\n") for record in failed)


def _packed(lines: list[bytes]) -> Iterator[bytes]:
    pack: list[bytes] = []
    size = 0
    for line in lines:
        if pack and size + len(line) > RECORD_BYTES:
            yield b"".join(pack)
            pack, size = [], 0
        pack.append(line)
        size += len(line)
    if pack:
        yield b"".join(pack)
