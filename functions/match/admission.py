"""Whether a notification may go out: the cooldown, the claim, the count, in this order.

    in cooldown ──────────▶ rate_limited        read only: a flood writes nothing
        │ no
    claim taken ──────────▶ duplicate           a duplicate never eats budget
        │ no: claimed
    one too many ─────────▶ rate_limited        starts the cooldown
        │ no: counted
      queued

Each step holds against a stop before or after it: a claim lets its own receipt pass again, and the window knows whom
it has counted already.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from pynamodb.exceptions import PutError
from pynamodb.expressions.condition import Condition

from clarion.decisions import NotificationDecision
from clarion.limiter import Limit, Window, admit, mark_of, pack, unpack
from clarion.tables import PushRecord, RateLimit
from match.matching import Match

CONDITION_FAILED = "ConditionalCheckFailedException"
LONGEST_CLAIM = 30 * 24 * 3600
"""Seconds. A standing statement never expires; were a node to show it as new after a month, it is pushed again."""
CLAIM_SLACK = 3600
"""Seconds that a claim outlives its statement, for clocks and retries; nodes refuse it from its expiry on."""
PAIR_LIFE = 24 * 3600
"""Seconds that an idle window is kept: far longer than the queue may take to bring a retry."""


class Notification(NamedTuple):
    receipt: UUID
    statement_hash: bytes
    sender: bytes
    expires_at: int
    match: Match

    @property
    def pair(self) -> bytes:
        return self.sender + self.match.receiver.client_id

    @property
    def mark(self) -> bytes:
        return mark_of(self.statement_hash, self.match.receiver.subscription_id)


class Ruling(NamedTuple):
    """`order` is the version of the pair's window that the decision was taken on, or wrote."""

    decision: NotificationDecision
    order: int | None


class _Seen(NamedTuple):
    window: Window
    version: int


class Admission:
    def __init__(self, limit: Limit, clock: Callable[[], int]) -> None:
        self._limit = limit
        self._clock = clock

    def decide(self, notifications: Sequence[Notification]) -> list[Ruling]:
        """Rule on notifications of one pair, in their order, with at most one write to its window."""
        now = self._clock()
        pair = notifications[0].pair
        seen = _read(pair, consistent=False)
        rulings = [_before_count(notification, seen, now) for notification in notifications]
        claimed = [number for number, ruling in enumerate(rulings) if ruling.decision is NotificationDecision.QUEUED]
        verdicts, order = self._count(pair, [notifications[number].mark for number in claimed], seen)
        for number, passed in zip(claimed, verdicts, strict=True):
            decision = NotificationDecision.QUEUED if passed else NotificationDecision.RATE_LIMITED
            rulings[number] = Ruling(decision, order)
        return rulings

    def _count(self, pair: bytes, marks: Sequence[bytes], seen: _Seen) -> tuple[list[bool], int]:
        """Each conflict means that another worker moved the pair on, which it can do but `limit` times a window."""
        while True:
            now = self._clock()
            window, verdicts = admit(seen.window, self._limit, marks, now)
            if window == seen.window:
                return verdicts, seen.version
            if _write(pair, window, seen.version, now):
                return verdicts, seen.version + 1
            seen = _read(pair, consistent=True)


def _before_count(notification: Notification, seen: _Seen, now: int) -> Ruling:
    if seen.window.refuses(notification.mark, now):
        return Ruling(NotificationDecision.RATE_LIMITED, seen.version)
    if not claim(notification, now):
        return Ruling(NotificationDecision.DUPLICATE, None)
    return Ruling(NotificationDecision.QUEUED, None)


def claim(notification: Notification, now: int) -> bool:
    """Take the statement for the subscription, unless another receipt holds it.

    Expiry is part of the condition, since DynamoDB removes what has expired days late.
    """
    record = PushRecord(
        notification.statement_hash,
        notification.match.receiver.subscription_id,
        receipt=str(notification.receipt),
        sender_pubkey=notification.sender,
        topic=notification.match.topic,
        claimed_at=now,
        ttl=_claimed_until(notification.expires_at, now // 1000),
    )
    free = PushRecord.receipt.does_not_exist() | (PushRecord.ttl <= now // 1000)
    return _put(record, free | (PushRecord.receipt == record.receipt))


def _claimed_until(expires_at: int, now: int) -> int:
    """UNIX seconds."""
    return min(expires_at + CLAIM_SLACK, now + LONGEST_CLAIM)


def _read(pair: bytes, *, consistent: bool) -> _Seen:
    try:
        row = RateLimit.get(pair, consistent_read=consistent)
    except RateLimit.DoesNotExist:
        return _Seen(Window(), 0)
    return _Seen(Window(unpack(row.admitted), int(row.cooldown_until)), int(row.version))


def _write(pair: bytes, window: Window, version: int, now: int) -> bool:
    """Replace the window that was read at `version`, unless it has moved on."""
    row = RateLimit(
        pair,
        admitted=pack(window.admitted),
        cooldown_until=window.cooldown_until,
        version=version + 1,
        ttl=now // 1000 + PAIR_LIFE,
    )
    return _put(row, RateLimit.version == version if version else RateLimit.version.does_not_exist())


def _put(row: PushRecord | RateLimit, condition: Condition) -> bool:
    try:
        row.save(condition)
    except PutError as error:
        if error.cause_response_code == CONDITION_FAILED:
            return False
        raise
    return True
