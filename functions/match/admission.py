"""Whether a notification may go out: the cooldown, the claim, the count, in this order.

    in cooldown ─────▶ rate_limited     nothing is written: a flood costs reads only
        │ no
    claimed before ──▶ duplicate        and eats no budget
        │ no: claimed
    one too many ────▶ rate_limited     and starts the cooldown
        │ no: counted
      queued

Every step may run twice: a claim lets its own receipt pass again, and a window knows whom it has counted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from clarion.decisions import NotificationDecision
from clarion.limiter import Limit, admit, mark_of
from clarion.tables import PushRecord
from match.claims import Claims, lasts_until
from match.matching import Match
from match.windows import Seen, Windows


class Notification(NamedTuple):
    """A statement for a subscription. `expires_at` is the statement's, in UNIX seconds."""

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


class Admission:
    def __init__(self, limit: Limit, claims: Claims, windows: Windows, clock: Callable[[], int]) -> None:
        self._limit = limit
        self._claims = claims
        self._windows = windows
        self._clock = clock

    def decide(self, notifications: Sequence[Notification]) -> list[Ruling]:
        """Rule on notifications of one pair, in their order, with at most one write that changes its window."""
        now = self._clock()
        seen = self._windows.look(notifications[0].pair, now)
        early = [self._before_count(notification, seen, now) for notification in notifications]
        claimed = [notification for notification, ruling in zip(notifications, early, strict=True) if not ruling]
        counted = iter(self._count(claimed, seen) if claimed else ())
        return [ruling or next(counted) for ruling in early]

    def _before_count(self, notification: Notification, seen: Seen, now: int) -> Ruling | None:
        if seen.window.refuses(notification.mark, now):
            return Ruling(NotificationDecision.RATE_LIMITED, seen.version)
        if not self._claims.take(_record(notification, now)):
            return Ruling(NotificationDecision.DUPLICATE, None)
        return None

    def _count(self, claimed: Sequence[Notification], seen: Seen) -> list[Ruling]:
        """Try until no other worker comes between: each that does moves the window on, which soon is in cooldown."""
        marks = [notification.mark for notification in claimed]
        written = False
        while not written:
            now = self._clock()
            window, verdicts = admit(seen.window, self._limit, marks, now)
            if window == seen.window:
                break
            written, seen = self._windows.replace(claimed[0].pair, seen, window, now)
        decisions = (
            NotificationDecision.QUEUED if passed else NotificationDecision.RATE_LIMITED for passed in verdicts
        )
        return [Ruling(decision, seen.version) for decision in decisions]


def _record(notification: Notification, now: int) -> PushRecord:
    return PushRecord(
        notification.statement_hash,
        notification.match.receiver.subscription_id,
        receipt=str(notification.receipt),
        sender_pubkey=notification.sender,
        topic=notification.match.topic,
        claimed_at=now,
        ttl=lasts_until(notification.expires_at, now // 1000),
    )
