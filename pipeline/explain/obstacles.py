"""What may stand in the way of a push, each as a sentence: a claim, the limit of a pair, the cap of a subscription."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from clarion.decisions import NotificationDecision
from clarion.events import NotificationDecided
from clarion.limiter import Admitted, Limit, Window, count, judge, mark_of
from pipeline.explain.cases import Notified, PossibleClaim
from pipeline.in_force.limits import LimitSpan, PairLimits
from pipeline.reconciliation.limit_replay import PairAttempt, PairReplay

if TYPE_CHECKING:
    from uuid import UUID

QUEUED, LIMITED = NotificationDecision.QUEUED, NotificationDecision.RATE_LIMITED


class Obstacle(NamedTuple):
    """What stands in the way of a push: the decision that it should lead to, and a sentence."""

    should_be: str
    reason: str


def queued_before(one: Notified) -> Obstacle | None:
    queued = [claim for claim in one.claims if claim.decision is QUEUED and claim.at <= one.decided_at]
    return _held_by(queued[0]) if queued else None


def claimed(one: Notified, refusals: Collection[str]) -> Obstacle | None:
    """One that was over the limit has claimed as well, and what was rightly refused once is refused again."""
    holding = [claim for claim in one.claims if claim.decision in {QUEUED, LIMITED, None, *refusals}]
    return _held_by(holding[0]) if holding else None


def _held_by(claim: PossibleClaim) -> Obstacle:
    other = f"Another receipt of the envelope, {claim.receipt},"
    known = f"{other} had the claim: at {clock(claim.at)}, {claim.decision}."
    return Obstacle(NotificationDecision.DUPLICATE, known if claim.decision else f"{other} is missing already.")


def over_limit(one: Notified) -> Obstacle | None:
    """Where two limits may have been in force, what either of them bears out is right."""
    refused = [
        reason for limits in one.limits if (reason := _refusal(one, limits.limit) or _refused_after_lost(one, limits))
    ]
    if not refused or (one.found is QUEUED and len(refused) < len(one.limits)):
        return None
    return Obstacle(LIMITED, refused[0])


def _refusal(one: Notified, limit: Limit | None) -> str | None:
    if limit is None or one.sender is None:
        return None
    window, mark = window_after(one.earlier, limit), mark_of(one.envelope_id)
    if judge(window, limit, mark, one.at)[1]:
        return None
    if cooldown := next((each for each in window.cooldowns if each.begin <= one.at < each.end), None):
        return f"The pair of sender and client was in a cooldown, {clock(cooldown.begin)} to {clock(cooldown.end)}."
    return f"{limit.count} of this sender had passed within {limit.window // 1000} s, and it was one more."


def _refused_after_lost(one: Notified, limits: LimitSpan) -> str | None:
    """As `reconcile` replays it: the limit may have counted what is lost, beside what was decided."""
    if one.found is QUEUED or one.sender is None or not one.lost:
        return None
    replay = PairReplay(PairLimits([limits]))
    lost = sorted(map(_attempt, one.lost), key=attrgetter("at"))
    for each in merge(map(_decided_attempt, one.earlier), lost, key=attrgetter("at")):
        if each.at <= one.decided_at:
            replay.passes(each)
    if replay.passes(_attempt(one)):
        return None
    return f"With {len(lost)} of this sender that are lost, the limit had been reached before it."


def _attempt(one: Notified) -> PairAttempt:
    return PairAttempt(one.envelope_id, one.found, one.decided_at, one.at)


def _decided_attempt(one: NotificationDecided) -> PairAttempt:
    return PairAttempt(one.envelope_id or b"", one.decision, one.at, one.judged_at or one.at, one.counted)


def within_limits(one: Notified) -> Iterator[str]:
    limit = one.limits[0].limit
    if limit and one.sender is not None:
        window = window_after(one.earlier, limit)
        near = sum(abs(admitted.at - one.at) < limit.window for admitted in window.admitted)
        yield f"{near} other{'s' * (near != 1)} of this sender had passed near it; {limit.count} may within {limit.window // 1000} s."


def window_after(decisions: Sequence[NotificationDecided], limit: Limit) -> Window:
    """What the live system's decisions about a pair, in order, have left: what it queued counts, rightly or not."""
    window = Window()
    for each in decisions:
        mark, at = mark_of(each.envelope_id or b""), each.judged_at or each.at
        after, passed = judge(window, limit, mark, at)
        if each.decision is QUEUED:
            # One that should not have passed counts, but for itself: it takes no other of its envelope along.
            window = after if passed else count(window, Admitted(at, mark_of(mark)))
        elif each.decision is LIMITED and not passed:
            window = after
    return window


def in_order(decisions: Sequence[NotificationDecided]) -> list[NotificationDecided]:
    """A pair's decisions as they happened: by time, but by the version of the pair's window where that is known."""
    times: dict[tuple[UUID, UUID], int] = {}
    latest = 0
    versioned = (one for one in decisions if one.order is not None)
    for one in sorted(versioned, key=lambda one: (one.order or 0, one.at)):
        latest = times[one.receipt, one.subscription_id] = max(latest, one.at)

    def place(one: NotificationDecided) -> tuple[int, int, bool]:
        return times.get((one.receipt, one.subscription_id), one.at), one.order or 0, one.decision is not QUEUED

    return sorted(decisions, key=place)


def full(one: Notified) -> Obstacle | None:
    """A worker knows of all that was queued or less, so the subscription may have been full in any window around it."""
    for cap in (limits.cap for limits in one.limits):
        queued = _queued_times(one)
        ends = [at for at in (*queued, one.at) if one.at <= at < one.at + cap.window]
        if max(sum(end - cap.window < at <= end for at in queued) for end in ends) >= cap.count:
            return Obstacle(
                NotificationDecision.CAPPED,
                f"Its subscription had been sent {cap.count} within {cap.window // 1000} s.",
            )
    return None


def overfull(one: Notified) -> Obstacle | None:
    """More than twice the cap are too many, however late the workers learnt of each other."""
    caps = [limits.cap for limits in one.limits]
    queued = _queued_times(one)
    if any(sum(one.at - cap.window < at <= one.at for at in queued) <= 2 * cap.count for cap in caps):
        return None
    return Obstacle(
        NotificationDecision.CAPPED, f"Its subscription had been sent more than twice {caps[0].count} within a window."
    )


def _queued_times(one: Notified) -> list[int]:
    return [each.judged_at or each.at for each in one.near if each.decision is QUEUED]


def clock(instant: int) -> str:
    """UNIX milliseconds as UTC."""
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
