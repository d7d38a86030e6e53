"""Whether a notification may go out: the cooldown, the claim, the count, in this order.

    in cooldown ─────▶ rate_limited     nothing is written: a flood costs reads only
        │ no
    claimed before ──▶ duplicate        and eats no budget
        │ no: claimed
    one too many ────▶ rate_limited     and starts the cooldown
        │ no: counted
      queued

Every step may run twice, and rules the same: a claim lets its own receipt pass again, a window knows whom it has
counted, and what was observed before a cooldown's end is refused for good, unless it was counted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from clarion.decisions import NotificationDecision
from clarion.limiter import Limit, Window, admit, make_room, mark_of
from clarion.tables import PushRecord
from match.claims import Claims, lasts_until
from match.matching import Match
from match.windows import Seen, Windows


class Notification(NamedTuple):
    """A statement for a subscription. `expires_at` is the statement's, in UNIX seconds."""

    receipt: UUID
    observed_at: int
    statement_hash: bytes
    sender: bytes
    expires_at: int
    match: Match
    look_id: UUID | None = None

    @property
    def pair(self) -> bytes:
        return self.sender + self.match.receiver.client_id

    @property
    def claimant(self) -> str:
        """Who claims it: a second look passes no claim of the first, which has pushed, or will when it is retried."""
        return f"{self.receipt}/{self.look_id}" if self.look_id else str(self.receipt)

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
        pair = notifications[0].pair
        seen = self._windows.look(pair, now)
        earlier = self._set_aside(pair, seen.window, notifications)
        early = [self._before_count(notification, seen, earlier, now) for notification in notifications]
        claimed = [notification for notification, ruling in zip(notifications, early, strict=True) if not ruling]
        counted = iter(self._count(pair, claimed, seen, earlier) if claimed else ())
        return [ruling or next(counted) for ruling in early]

    def _before_count(self, notification: Notification, seen: Seen, earlier: set[bytes], now: int) -> Ruling | None:
        if notification.mark not in earlier and self._refused(seen.window, notification, now):
            return Ruling(NotificationDecision.RATE_LIMITED, seen.version)
        if not self._claims.take(_record(notification, now)):
            return Ruling(NotificationDecision.DUPLICATE, None)
        return None

    def _refused(self, window: Window, notification: Notification, now: int) -> bool:
        return window.refuses(self._limit, notification.mark, notification.observed_at, now)

    def _set_aside(self, pair: bytes, window: Window, notifications: Sequence[Notification]) -> set[bytes]:
        """Whom the window's pages know: read only for those that may be retries and are in none but a page."""
        asked = [
            notification.observed_at
            for notification in notifications
            if window.may_have_set_aside(notification.observed_at) and not window.knows(notification.mark)
        ]
        return self._windows.set_aside_since(pair, window, min(asked)) if asked else set()

    def _count(self, pair: bytes, claimed: Sequence[Notification], seen: Seen, earlier: set[bytes]) -> list[Ruling]:
        """Try until no other worker comes between: each that does moves the window on, which soon is in cooldown."""
        while True:
            now = self._clock()
            asking = [
                notification.mark
                for notification in claimed
                if notification.mark not in earlier and not self._refused(seen.window, notification, now)
            ]
            window, passing = self._admit(pair, seen.window, asking, now)
            if window == seen.window:
                break
            written, seen = self._windows.replace(pair, seen, window, now)
            if written:
                break
            earlier = self._set_aside(pair, seen.window, claimed)
        passed = {*earlier, *passing}
        return [Ruling(_decision(passed=notification.mark in passed), seen.version) for notification in claimed]

    def _admit(self, pair: bytes, seen: Window, asking: Sequence[bytes], now: int) -> tuple[Window, set[bytes]]:
        """The window after they asked, and which may pass. It stays as it was seen if that changes nothing."""
        roomy, page = make_room(seen, self._limit, len(asking), now)
        window, verdicts = admit(roomy, self._limit, asking, now)
        if window == roomy:
            window = seen
        elif page:
            self._windows.set_aside(pair, seen.pages, page, now)
        return window, {mark for mark, passed in zip(asking, verdicts, strict=True) if passed}


def _decision(*, passed: bool) -> NotificationDecision:
    return NotificationDecision.QUEUED if passed else NotificationDecision.RATE_LIMITED


def _record(notification: Notification, now: int) -> PushRecord:
    return PushRecord(
        notification.statement_hash,
        notification.match.receiver.subscription_id,
        receipt=notification.claimant,
        sender_pubkey=notification.sender,
        topic=notification.match.topic,
        claimed_at=now,
        ttl=lasts_until(notification.expires_at, now // 1000),
    )
