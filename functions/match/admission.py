"""Whether a notification may go out: the cooldown, the cap, the claim, the count, in this order.

    in cooldown ─────────▶ rate_limited   nothing is written: a flood costs reads only
        │ no
    subscription full ───▶ capped         nor here
        │ no
    claimed before ──────▶ duplicate      and eats no budget
        │ no: claimed
    one too many ────────▶ rate_limited   and starts the cooldown
        │ no: counted
      queued

A statement that the pair's window has counted already passes the cooldown, and is counted no more: it is a retry, or
for another subscription of the same client. Only a retry has a claim, by which it passes the cap as well.

Every step may run twice, and rules the same: a claim lets its own receipt pass again, a window knows whom it has
counted, and what it refused falls into the cooldown, whenever it comes again.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple
from uuid import UUID

from clarion.decisions import NotificationDecision
from clarion.limiter import Admitted, Limit, Window, count, judge, judged_at, mark_of, remembered_since
from clarion.tables import PushRecord
from match.caps import Caps
from match.claims import Claim, Claims, lasts_until
from match.matching import Match
from match.windows import Seen, Windows


class Notification(NamedTuple):
    """A statement for a subscription. `expires_at` is the statement's, in UNIX seconds."""

    receipt: UUID
    observed_at: int
    envelope_id: bytes
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
        return mark_of(self.envelope_id)

    @property
    def subscription_id(self) -> str:
        return self.match.receiver.subscription_id


class Ruling(NamedTuple):
    """`order` is the version of the pair's window that the decision was taken on, or wrote.

    `judged_at` is the time that the statement was judged by; `counted` says whether this ruling changed the window.
    """

    decision: NotificationDecision
    order: int | None = None
    judged_at: int | None = None
    counted: bool | None = None


class Asked(NamedTuple):
    """A notification, the mark of its statement, and the time that it is judged by."""

    notification: Notification
    mark: bytes
    at: int


class View(NamedTuple):
    """A pair's window as it was seen, and the whole of it, as far as it has a bearing on who is asking."""

    seen: Seen
    window: Window
    paged: frozenset[Admitted]

    def without_pages(self, window: Window) -> Window:
        """Of what has become of the whole, that which belongs into the row."""
        kept = [one for one in window.admitted if one not in self.paged or one in self.seen.window.admitted]
        return Window(tuple(kept), window.cooldowns)


class Admission:
    def __init__(self, limit: Limit, claims: Claims, windows: Windows, caps: Caps, clock: Callable[[], int]) -> None:
        self._limit = limit
        self._claims = claims
        self._windows = windows
        self._caps = caps
        self._clock = clock

    def decide(self, notifications: Sequence[Notification]) -> list[Ruling]:
        """Rule on notifications of one pair, in their order, with at most one write that changes its window."""
        now = self._clock()
        pair = notifications[0].pair
        asked = [Asked(one, one.mark, judged_at(one.observed_at, now)) for one in notifications]
        view = self._view(pair, self._windows.look(pair, [one.at for one in asked]), asked, now)
        rulings: dict[int, Ruling] = {}
        claimed: dict[int, Claim] = {}
        for number, one in enumerate(asked):
            outcome = self._before_count(one, view, now)
            if isinstance(outcome, Ruling):
                rulings[number] = outcome
            else:
                claimed[number] = outcome
        if claimed:
            counted = self._count(pair, [asked[number] for number in claimed], view, now)
            rulings |= dict(zip(claimed, counted, strict=True))
            self._add_queued([(asked[number], claimed[number], rulings[number]) for number in claimed])
        return [rulings[number] for number in range(len(asked))]

    def publish(self) -> None:
        """Let the other sandboxes know what was queued: once for all that a batch decided."""
        self._caps.publish(self._clock())

    def _view(self, pair: bytes, seen: Seen, asked: Collection[Asked], now: int) -> View:
        """With the window's pages, if any of those who ask may be in one or close to one; that is rare."""
        since = [
            remembered_since(self._limit, one.notification.observed_at, now)
            for one in asked
            if not seen.window.knows(one.mark)
        ]
        paged: set[Admitted] = set()
        if since and min(since) < seen.paged_until:
            paged = self._windows.pages(pair, min(since))
        return View(seen, count(seen.window, *paged) if paged else seen.window, frozenset(paged))

    def _before_count(self, asked: Asked, view: View, now: int) -> Ruling | Claim:
        at, known = asked.at, view.window.knows(asked.mark)
        if not known and view.window.refuses(at):
            return Ruling(NotificationDecision.RATE_LIMITED, view.seen.version, at, counted=False)
        claim = self._claim(asked, now, known=known)
        if claim is None:
            return Ruling(NotificationDecision.CAPPED, judged_at=at)
        return Ruling(NotificationDecision.DUPLICATE) if claim is Claim.TAKEN else claim

    def _claim(self, asked: Asked, now: int, *, known: bool) -> Claim | None:
        """None if the subscription is full, unless its claim says that it was not full the first time."""
        record = _record(asked.notification, now)
        if not self._full(asked):
            return self._claims.take(record)
        return self._claims.renew(record) if known else None

    def _full(self, asked: Asked) -> bool:
        return self._caps.full(asked.notification.subscription_id, asked.at)

    def _add_queued(self, decided: Sequence[tuple[Asked, Claim, Ruling]]) -> None:
        """To what their subscriptions were sent, but for retries, which were added when they were claimed."""
        for asked, claim, ruling in decided:
            if ruling.decision is NotificationDecision.QUEUED and (claim is Claim.NEW or ruling.counted):
                self._caps.add(asked.notification.subscription_id, asked.at)

    def _count(self, pair: bytes, claimed: Sequence[Asked], view: View, now: int) -> list[Ruling]:
        """Try until no other worker comes between: each that does moves the window on, which soon is in cooldown."""
        while True:
            window, verdicts = view.window, []
            for one in claimed:
                after, passed = judge(window, self._limit, one.mark, one.at)
                verdicts.append((passed, after != window))
                window = after
            seen, written = view.seen, True
            if window != view.window:
                written, seen = self._windows.replace(pair, seen, view.without_pages(window), self._clock())
            if written:
                return [
                    Ruling(_decision(passed=passed), seen.version, one.at, counted)
                    for one, (passed, counted) in zip(claimed, verdicts, strict=True)
                ]
            view = self._view(pair, seen, claimed, now)


def _decision(*, passed: bool) -> NotificationDecision:
    return NotificationDecision.QUEUED if passed else NotificationDecision.RATE_LIMITED


def _record(notification: Notification, now: int) -> PushRecord:
    return PushRecord(
        notification.subscription_id,
        notification.envelope_id,
        receipt=notification.claimant,
        sender=notification.sender,
        topic=notification.match.topic,
        claimed_at=now,
        ttl=lasts_until(notification.expires_at, now // 1000),
    )
