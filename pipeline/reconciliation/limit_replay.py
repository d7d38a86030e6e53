"""Replay the limits, pair by pair in order, with the limiter that the live path uses.

The replay follows what the live system did: each decision is judged by the limits that the deployment had then, and by
the state that its predecessors really left behind. So one fault is one difference, and not the start of a chain of
them. A pair is replayed row by row: what is kept of it in between doesn't grow with its attempts, but for eight bytes
for each millisecond in which something went over the limit, for as long as that may have a bearing.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import compute as pc

from clarion.decisions import NotificationDecision
from clarion.limiter import SKEW, Admitted, Cooldown, Limit, Window, fits, forget, forgotten, judge, mark_of
from pipeline.findings import Difference
from pipeline.in_force.limits import LimitHistory, PairLimits

OVER_THE_LIMIT = "over the limit"
PRUNED_EVERY = 1_000
"""Attempts of a pair after which those are forgotten that can have no bearing any more."""

_QUEUED, _LIMITED = str(NotificationDecision.QUEUED), str(NotificationDecision.RATE_LIMITED)
_PAIR = ("network", "sender", "client_id")


class PairAttempt(NamedTuple):
    """One envelope for one subscription of a pair's.

    `found` is what the live system decided at the time `at`, None if it never did; `judged_at` is the time that the
    limit judged it by, or would have. `counted` says whether it was the first of its envelope to be counted. Some that
    were queued are there twice, once `ahead`: see `verdicts.sort_for_replay`.
    """

    envelope_id: bytes
    found: str | None
    at: int
    judged_at: int
    counted: bool | None = None
    ahead: bool = False


class PairReplay:
    """Replays a pair by the older and by the newer limit: next to a change, a decision that either allows is right."""

    def __init__(self, limits: PairLimits) -> None:
        either = (
            [limits] if len(limits.spans) == 1 else [replace(limits, newest_first=newest) for newest in (False, True)]
        )
        self._readings = [_Reading(each) for each in either]

    def passes(self, one: PairAttempt) -> bool:
        """Whether the limits let it pass, after all that the live system has let pass before. To be asked in order."""
        passed = [reading.passes(one) for reading in self._readings]
        return any(passed) if one.found == _QUEUED else all(passed)


class _Reading:
    """A pair's window as the live system had it, and a second one in which what it never saw is counted as well."""

    def __init__(self, limits: PairLimits) -> None:
        self._limits = limits
        self._lived, self._ideal = _GrowingWindow(), _GrowingWindow()
        self._ahead = array("q")
        self._seen = 0

    def passes(self, one: PairAttempt) -> bool:
        self._prune(one.judged_at)
        limits, mark = self._limits.near(one.at), mark_of(one.envelope_id)
        if one.ahead:
            return self._look_ahead(limits[0], mark, one)
        if one.found is None:
            return self._never_seen(limits, mark, one.judged_at)
        if one.found == _QUEUED:
            return self._queued(limits, mark, one.judged_at)
        if one.found == _LIMITED:
            return self._limited(limits, mark, one.judged_at)
        return all(self._lived.passes(limit, mark, one.judged_at) for limit in limits)

    def _look_ahead(self, limit: Limit | None, mark: bytes, one: PairAttempt) -> bool:
        """What was queued uncounted has been counted by an attempt without an event, if the limit leaves space for it."""
        if limit and (one.counted or fits(self._ahead, limit, one.judged_at)):
            insort(self._ahead, one.judged_at)
            del self._ahead[: bisect_left(self._ahead, one.judged_at - 2 * limit.window)]
            if not one.counted:
                self._lived.add(mark, one.judged_at)
                self._ideal.add(mark, one.judged_at)
        return True

    def _never_seen(self, limits: Sequence[Limit | None], mark: bytes, at: int) -> bool:
        passed = all(self._ideal.passes(limit, mark, at) for limit in limits)
        if limits[0]:
            self._ideal.judge(limits[0], mark, at)
        return passed

    def _queued(self, limits: Sequence[Limit | None], mark: bytes, at: int) -> bool:
        passing = [limit for limit in limits if self._lived.passes(limit, mark, at)]
        if limit := next(iter(passing or limits)):
            self._lived.count(limit, mark, at)
            self._ideal.count(limit, mark, at)
        return bool(passing)

    def _limited(self, limits: Sequence[Limit | None], mark: bytes, at: int) -> bool:
        for limit in filter(None, limits):
            passes_lived, passes_ideal = (window.passes(limit, mark, at) for window in (self._lived, self._ideal))
            # The live system may have counted some whose events were lost.
            if not (passes_lived and passes_ideal):
                if not passes_lived:
                    self._lived.judge(limit, mark, at)
                self._ideal.judge(limit, mark, at)
                return False
        return True

    def _prune(self, judged_at: int) -> None:
        self._seen += 1
        if (widest := self._limits.widest) and self._seen % PRUNED_EVERY == 0:
            # Nothing that is yet to come was decided before that: see `verdicts.sort_for_replay`.
            now = judged_at - widest.window - SKEW
            self._lived.prune(widest, now)
            self._ideal.prune(widest, now)


class _GrowingWindow:
    """A `limiter.Window` that grows in place. `judge` is given what match would read of it: all that has a bearing."""

    def __init__(self) -> None:
        self._times = array("q")
        self._marks: dict[bytes, int] = {}
        self._cooldowns: tuple[Cooldown, ...] = ()

    def passes(self, limit: Limit | None, mark: bytes, at: int) -> bool:
        return limit is None or judge(self._near(limit, mark, at), limit, mark, at)[1]

    def judge(self, limit: Limit, mark: bytes, at: int) -> bool:
        """Whether it passes, which is counted, or else may start a cooldown."""
        after, passed = judge(self._near(limit, mark, at), limit, mark, at)
        if passed:
            self.add(mark, at)
        else:
            self._cooldowns = after.cooldowns
        return passed

    def count(self, limit: Limit, mark: bytes, at: int) -> None:
        """What should not have passed counts, but for itself: it takes no other of its envelope along."""
        if self.passes(limit, mark, at):
            self.add(mark, at)
        elif at not in self._times[(place := bisect_left(self._times, at)) : place + 1]:
            self._times.insert(place, at)

    def prune(self, widest: Limit, now: int) -> None:
        """Forget what `limiter.forget` would."""
        since = forgotten(widest, now)
        del self._times[: bisect_left(self._times, since)]
        self._marks = {mark: at for mark, at in self._marks.items() if at >= since}
        self._cooldowns = forget(Window(cooldowns=self._cooldowns), widest, now).cooldowns

    def _near(self, limit: Limit, mark: bytes, at: int) -> Window:
        """By the order of `judge`: who is known passes, and who is in a cooldown doesn't, whatever else there is."""
        if mark in self._marks:
            return Window((Admitted(self._marks[mark], mark),))
        cooldowns = Window(cooldowns=self._cooldowns)
        if cooldowns.refuses(at):
            return cooldowns
        place = bisect_left(self._times, at)
        times = self._times[max(0, place - limit.count) : place + limit.count]
        return cooldowns._replace(admitted=tuple(Admitted(time, b"") for time in times))

    def add(self, mark: bytes, at: int) -> None:
        if mark not in self._marks:
            self._marks[mark] = at
            insort(self._times, at)


def replay_batches(
    batches: Iterable[pa.RecordBatch], history: LimitHistory, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The columns `names` of those rows that differ from what is right.

    The rows are sorted by pair and, if they `may_reach_limit`, in the order in which their pair decided them. They have
    the columns of `PairAttempt`, and `difference` and `evidence` if something is wrong with them even if the limits let
    them pass. Limits refuse none of the other rows.
    """
    replays = _Replays(history)
    for batch in batches:
        may_reach_limit = batch.column("may_reach_limit")
        yield batch.filter(pc.invert(may_reach_limit)).select(names)
        rows = batch.filter(may_reach_limit)
        yield _contradicted(rows, pa.array(replays.passes(rows), pa.bool_())).select(names)


class _Replays:
    """Of one pair after the other; a pair's rows may be in several batches."""

    def __init__(self, history: LimitHistory) -> None:
        self._history = history
        self._pair: tuple[Any, ...] | None = None

    def passes(self, rows: pa.RecordBatch) -> Iterator[bool]:
        for pair, one in zip(_tuples(rows, _PAIR), _tuples(rows, PairAttempt._fields), strict=True):
            if pair != self._pair:
                self._pair, self._replay = pair, PairReplay(self._history.of_pair(pair[0], pair[1]))
            yield self._replay.passes(PairAttempt._make(one))


def _tuples(rows: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def _contradicted(rows: pa.RecordBatch, passes: pa.BooleanArray) -> pa.RecordBatch:
    """What was not queued is lost only if it would have passed; what was queued must have passed."""
    wrong, queued = rows.column("difference").is_valid(), pc.equal(rows.column("found"), _QUEUED).fill_null(False)
    over = pc.and_(pc.and_not(queued, passes), pc.and_not(rows.column("judged"), wrong))
    for name, word in (("difference", str(Difference.UNEXPECTED)), ("evidence", OVER_THE_LIMIT)):
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pc.if_else(over, word, rows.column(name)))
    contradicts = pc.or_(over, pc.and_(wrong, pc.or_(queued, passes)))
    return rows.filter(pc.and_not(contradicts, rows.column("ahead")))
