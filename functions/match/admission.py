"""Whether a notification may go out: the cooldown, the cap, the claim, the count, in this order.

    in cooldown ─────────▶ rate_limited   nothing is written: a flood costs reads only
        │ no
    subscription full ───▶ capped         nor here
        │ no
    claimed before ──────▶ duplicate      and uses no budget
        │ no: claimed
    one too many ────────▶ rate_limited   and starts the cooldown
        │ no: counted
      queued

An envelope that the pair's window has counted already passes the cooldown, and is counted no more: it is a retry, or
for another subscription of the same client. Only a retry has a claim, by which it passes the cap as well.

Without a window, where the network has no limit or the envelope no sender, the cap and the claim alone decide; what a
full subscription is asked about then costs the write that finds its claim.

Every step may run twice, and decides the same: a claim lets its own receipt pass again, a window knows what it has
counted, and what it refused falls into the cooldown, whenever it comes again.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from clarion.claims import lasts_until
from clarion.decisions import NotificationDecision
from clarion.limiter import Admitted, Limit, Window, count, judge, judged_at, mark_of, remembered_since
from clarion.networks import network
from clarion.tables import pair_scope
from match.caps import Caps
from match.claims import Claim, ClaimRequest, Claims
from match.failures import Failure
from match.matching import Match
from match.windows import Pair, StoredWindow, Windows


class Notification(NamedTuple):
    """An envelope for a subscription. `expires_at` is the envelope's, in UNIX seconds."""

    network: str
    receipt: UUID
    observed_at: int
    envelope_id: bytes
    sender: bytes | None
    expires_at: int
    match: Match
    look_id: UUID | None = None

    @property
    def claimant(self) -> str:
        """Who claims it: a second look passes no claim of the first, which has pushed, or will when it is retried."""
        return f"{self.receipt}/{self.look_id}" if self.look_id else str(self.receipt)

    @property
    def mark(self) -> bytes:
        return mark_of(self.envelope_id)

    @property
    def subscription_id(self) -> str:
        return self.match.subscriber.subscription_id


class AdmissionResult(NamedTuple):
    """`order` is the version of the pair's window that the decision was taken on, or wrote.

    `judged_at` is the time that the envelope was judged by; `counted` says whether this decision changed the window.
    """

    decision: NotificationDecision
    order: int | None = None
    judged_at: int | None = None
    counted: bool | None = None


class Asked(NamedTuple):
    """A notification, the mark of its envelope, and the time that it is judged by."""

    notification: Notification
    mark: bytes
    at: int


type Group = Pair | str
"""Notifications that are decided on together: those of a pair, or where it has no window those of a subscription."""


class View(NamedTuple):
    """A pair's window as it is stored, and the whole of it, as far as it has a bearing on what is asked."""

    stored: StoredWindow
    window: Window
    paged: frozenset[Admitted]

    def without_pages(self, window: Window) -> Window:
        """Of what has become of the whole, that which belongs into the row."""
        kept = [one for one in window.admitted if one not in self.paged or one in self.stored.window.admitted]
        return Window(tuple(kept), window.cooldowns)


class Admission:
    """`limit_of` gives a network's limit for a pair, if it has one."""

    def __init__(
        self,
        limit_of: Callable[[str], Limit | None],
        claims: Claims,
        windows: Windows,
        caps: Caps,
        clock: Callable[[], int],
    ) -> None:
        self._limit_of = limit_of
        self._claims = claims
        self._windows = windows
        self._caps = caps
        self._clock = clock

    def group(self, notification: Notification) -> Group:
        """What `decide` takes together has this in common."""
        return self._pair(notification) or notification.subscription_id

    def look(self, notifications: Mapping[Pair, Sequence[Notification]]) -> dict[Pair, StoredWindow | Failure]:
        """The windows of up to `BATCH_GET_ITEMS` pairs, by one read."""
        now = self._clock()
        return self._windows.look(
            {pair: [judged_at(one.observed_at, now) for one in some] for pair, some in notifications.items()}
        )

    def decide(
        self, group: Group, notifications: Sequence[Notification], windows: Mapping[Pair, StoredWindow]
    ) -> list[AdmissionResult]:
        """Decide on a group's notifications, in their order, with at most one write that changes its window.

        `windows` are those that `look` has found.
        """
        now = self._clock()
        asked = [Asked(one, one.mark, judged_at(one.observed_at, now)) for one in notifications]
        if isinstance(group, Pair):
            return self._by_window(group, windows[group], asked, now)
        return [self._by_claim(one, now) for one in asked]

    def publish(self) -> None:
        """Let the other workers know what was queued: once for all that a batch decided."""
        self._caps.publish(self._clock())

    def _pair(self, notification: Notification) -> Pair | None:
        limit = self._limit_of(notification.network)
        if limit is None or notification.sender is None:
            return None
        client_id = notification.match.subscriber.client_id
        return Pair(pair_scope(network(notification.network).number, notification.sender, client_id), limit)

    def _by_claim(self, asked: Asked, now: int) -> AdmissionResult:
        outcome = self._claim(asked, now, may_be_retry=True)
        if isinstance(outcome, AdmissionResult):
            return outcome
        if outcome is Claim.NEW:
            self._caps.add(asked.notification.subscription_id, asked.at)
        return AdmissionResult(NotificationDecision.QUEUED, judged_at=asked.at)

    def _by_window(self, pair: Pair, stored: StoredWindow, asked: Sequence[Asked], now: int) -> list[AdmissionResult]:
        view = self._view(pair, stored, asked, now)
        results: dict[int, AdmissionResult] = {}
        claimed: dict[int, Claim] = {}
        for number, one in enumerate(asked):
            outcome = self._before_count(one, view, now)
            if isinstance(outcome, AdmissionResult):
                results[number] = outcome
            else:
                claimed[number] = outcome
        if claimed:
            counted = self._count(pair, [asked[number] for number in claimed], view, now)
            results |= dict(zip(claimed, counted, strict=True))
            self._add_queued([(asked[number], claimed[number], results[number]) for number in claimed])
        return [results[number] for number in range(len(asked))]

    def _view(self, pair: Pair, stored: StoredWindow, asked: Collection[Asked], now: int) -> View:
        """With the window's pages, if any envelope asked about may be in one or close to one; that is rare."""
        since = [
            remembered_since(pair.limit, one.notification.observed_at, now)
            for one in asked
            if not stored.window.knows(one.mark)
        ]
        paged: set[Admitted] = set()
        if since and min(since) < stored.paged_until:
            paged = self._windows.pages(pair, min(since))
        return View(stored, count(stored.window, *paged) if paged else stored.window, frozenset(paged))

    def _before_count(self, asked: Asked, view: View, now: int) -> AdmissionResult | Claim:
        known = view.window.knows(asked.mark)
        if not known and view.window.refuses(asked.at):
            return AdmissionResult(NotificationDecision.RATE_LIMITED, view.stored.version, asked.at, counted=False)
        return self._claim(asked, now, may_be_retry=known)

    def _claim(self, asked: Asked, now: int, *, may_be_retry: bool) -> AdmissionResult | Claim:
        """Capped if the subscription is full, unless its claim says that it was not full the first time."""
        request = _claim_request(asked.notification, now)
        claim: Claim | None = None
        if not self._caps.full(asked.notification.subscription_id, asked.at):
            claim = self._claims.take(request)
        elif may_be_retry:
            claim = self._claims.renew(request)
        if claim is None:
            return AdmissionResult(NotificationDecision.CAPPED, judged_at=asked.at)
        return AdmissionResult(NotificationDecision.DUPLICATE) if claim is Claim.TAKEN else claim

    def _add_queued(self, decided: Sequence[tuple[Asked, Claim, AdmissionResult]]) -> None:
        """To what their subscriptions were sent, but for retries, which were added when they were claimed."""
        for asked, claim, result in decided:
            if result.decision is NotificationDecision.QUEUED and (claim is Claim.NEW or result.counted):
                self._caps.add(asked.notification.subscription_id, asked.at)

    def _count(self, pair: Pair, claimed: Sequence[Asked], view: View, now: int) -> list[AdmissionResult]:
        """Try until no other worker comes between: each that does moves the window on, which soon is in cooldown."""
        while True:
            window, verdicts = view.window, []
            for one in claimed:
                after, passed = judge(window, pair.limit, one.mark, one.at)
                verdicts.append((passed, after != window))
                window = after
            stored, written = view.stored, True
            if window != view.window:
                written, stored = self._windows.replace(pair, stored, view.without_pages(window), self._clock())
            if written:
                return [
                    AdmissionResult(_decision(passed=passed), stored.version, one.at, counted)
                    for one, (passed, counted) in zip(claimed, verdicts, strict=True)
                ]
            view = self._view(pair, stored, claimed, now)


def _decision(*, passed: bool) -> NotificationDecision:
    return NotificationDecision.QUEUED if passed else NotificationDecision.RATE_LIMITED


def _claim_request(notification: Notification, now: int) -> ClaimRequest:
    return ClaimRequest(
        notification.subscription_id,
        notification.envelope_id,
        receipt=notification.claimant,
        claimed_at=now,
        ttl=lasts_until(notification.expires_at, now // 1000),
    )
