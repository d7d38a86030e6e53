"""Replay admission, pair by pair in order, with the limiter that the live path uses.

The replay follows what the live system did: each decision is judged by the limits that the deployment had then, and by
the state that its predecessors really left behind. So one fault is one difference, and not the start of a chain of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from clarion.decisions import EnvelopeDecision, NotificationDecision
from clarion.limiter import Admitted, Limit, Window, count, fits, forget, judge, mark_of
from pipeline.findings import REPAIRABLE, Difference
from pipeline.limits import LimitHistory, PairLimits

REMEMBERED = 5_000
"""Admissions of a pair beyond which those are forgotten that can have no bearing any more."""

_QUEUED, _LIMITED, _DUPLICATE = map(
    str, (NotificationDecision.QUEUED, NotificationDecision.RATE_LIMITED, NotificationDecision.DUPLICATE)
)
_CLAIMED = {_QUEUED, _LIMITED}
"""Under which a receipt may hold the claim: one that was over the limit has claimed."""
_PAIR = ("network", "sender", "client_id")

CONTRADICTIONS = StructType([
    StructField("receipt", StringType()),
    StructField("subscription_id", StringType()),
    StructField("network", StringType()),
    StructField("envelope_id", BinaryType()),
    StructField("sender", BinaryType()),
    StructField("client_id", BinaryType()),
    StructField("key", BinaryType()),
    StructField("channel", StringType()),
    StructField("wanted", StringType()),
    StructField("at", LongType()),
    StructField("found", StringType()),
    StructField("difference", StringType()),
    StructField("evidence", StringType()),
])  # fmt: skip
_ARROW = pa.schema([
    (field.name, {"binary": pa.binary(), "bigint": pa.int64()}.get(field.dataType.simpleString(), pa.string()))
    for field in CONTRADICTIONS.fields
])  # fmt: skip


class Comparison(NamedTuple):
    """One envelope for one subscription: what the live system decided, and what there is to judge that by.

    `found` is its decision, if there was one; `against` says why the subscription has no claim to it, if so; `sure`
    whether it surely had one, unless a secret decides that: then any of `refusals` may be right as well. `of_envelope`
    is the decision on the whole envelope. What is not `judged` lies outside the period and only leaves its traces.
    `judged_at` is the time that the limit judged it by, or would have, and `counted` whether it was the first to be
    counted. `full` says whether its subscription had reached the cap, and `overfull` that it was sent twice as much.
    """

    receipt: str
    subscription_id: str
    network: str
    envelope_id: bytes
    sender: bytes | None
    client_id: bytes
    key: bytes
    channel: str
    wanted: str | None
    observed_at: int
    at: int
    order: int | None
    judged_at: int
    counted: bool | None
    full: bool
    overfull: bool
    found: str | None
    against: str | None
    refusals: Sequence[str]
    sure: bool
    of_envelope: str | None
    judged: bool

    @property
    def who(self) -> tuple[str, str]:
        return self.receipt, self.subscription_id

    @property
    def claim(self) -> tuple[bytes, str]:
        return self.envelope_id, self.subscription_id

    @property
    def mark(self) -> bytes:
        return mark_of(self.envelope_id)


type Verdict = tuple[Difference, str]


def contradictions(comparisons: DataFrame, history: LimitHistory) -> DataFrame:
    """Those of `comparisons` (columns of `Comparison`) where the replay says otherwise than the live system did."""
    columns = comparisons.select(*Comparison._fields)
    by_pair = columns.repartition(*_PAIR).sortWithinPartitions(*_PAIR, "at")
    return by_pair.mapInArrow(partial(_replay_batches, history=history), CONTRADICTIONS)


def replay(comparisons: Sequence[Comparison], limits: PairLimits) -> Iterator[tuple[Comparison, Verdict]]:
    """Judge one pair's comparisons, which are sorted by time."""
    decisions = _decisions(comparisons)
    if limits.least is None or len(comparisons) <= limits.least:  # then no window can ever be full
        passes = [True] * len(comparisons)
        ordered: Sequence[Comparison] = comparisons
    else:
        ordered = in_order(comparisons)
        passes = _follow(ordered, limits)
    queued: dict[tuple[bytes, str], str] = {}
    for one, passed in zip(ordered, passes, strict=True):
        first = queued.get(one.claim)
        others = (found for receipt, found in decisions.get(one.claim, {}).items() if receipt != one.receipt)
        elsewhere = any(found in _CLAIMED or found in one.refusals for found in others)
        verdict = _judge(one, first, passes=passed, elsewhere=elsewhere) if one.judged else None
        if verdict:
            yield one, verdict
        if one.found == _QUEUED or (verdict and verdict[0] in REPAIRABLE):
            queued.setdefault(one.claim, one.receipt)


def in_order(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """A pair's comparisons as they happened: by time, but by the version of the pair's window where that is known."""
    times: dict[tuple[str, str], int] = {}
    latest = 0
    for one in sorted((one for one in comparisons if one.order is not None), key=_by_version):
        latest = times[one.who] = max(latest, one.at)
    return sorted(comparisons, key=lambda one: (times.get(one.who, one.at), one.order or 0, one.found != _QUEUED))


def _by_version(one: Comparison) -> tuple[int, int]:
    return one.order or 0, one.at


def _decisions(comparisons: Iterable[Comparison]) -> dict[tuple[bytes, str], dict[str, str]]:
    """By claim, what was decided under each receipt."""
    decisions: dict[tuple[bytes, str], dict[str, str]] = {}
    for one in comparisons:
        if one.found:
            decisions.setdefault(one.claim, {})[one.receipt] = one.found
    return decisions


def _follow(comparisons: Sequence[Comparison], limits: PairLimits) -> list[bool]:
    """Whether the limits let each of a pair's comparisons pass.

    Where two limits may have been in force, what either of them bears out is right, and so is what follows from it.
    """
    if len(limits.spans) == 1:
        return list(_Windows(comparisons, limits).follow())
    either = (_Windows(comparisons, replace(limits, newest_first=newest)).follow() for newest in (False, True))
    return [
        any(passed) if one.found == _QUEUED else all(passed)
        for one, passed in zip(comparisons, zip(*either, strict=True), strict=True)
    ]


class _Windows:
    """A pair's window as the live system had it, and a second one in which what it never saw is counted as well."""

    def __init__(self, comparisons: Sequence[Comparison], limits: PairLimits) -> None:
        self._comparisons = comparisons
        self._limits = limits
        self._lived = self._ideal = _counted_without_event(comparisons, limits)

    def follow(self) -> Iterator[bool]:
        """Whether the limit lets each of the comparisons pass, after what the live system has really let pass."""
        for one in self._comparisons:
            limits = self._limits.near(one.at)
            if one.found is None:
                yield self._never_seen(one, limits)
            elif one.found == _QUEUED:
                yield self._queued(one, limits)
            elif one.found == _LIMITED:
                yield self._limited(one, limits)
            else:
                yield one.found == _DUPLICATE or all(_passes(self._lived, limit, one) for limit in limits)
            self._prune(one.at)

    def _never_seen(self, one: Comparison, limits: Sequence[Limit | None]) -> bool:
        passed = all(_passes(self._ideal, limit, one) for limit in limits)
        if limits[0]:
            self._ideal, _ = judge(self._ideal, limits[0], one.mark, one.judged_at)
        return passed

    def _queued(self, one: Comparison, limits: Sequence[Limit | None]) -> bool:
        """One that should not have passed counts, but for itself: it takes no other of its envelope along."""
        passing = [limit for limit in limits if _passes(self._lived, limit, one)]
        if limit := next(iter(passing or limits)):
            self._lived, self._ideal = (_counted(window, limit, one) for window in (self._lived, self._ideal))
        return bool(passing)

    def _limited(self, one: Comparison, limits: Sequence[Limit | None]) -> bool:
        for limit in filter(None, limits):
            lived, passes_lived = judge(self._lived, limit, one.mark, one.judged_at)
            ideal, passes_ideal = judge(self._ideal, limit, one.mark, one.judged_at)
            # The live system may have counted some whose events were lost.
            if not (passes_lived and passes_ideal):
                self._lived, self._ideal = self._lived if passes_lived else lived, ideal
                return False
        return True

    def _prune(self, now: int) -> None:
        if widest := self._limits.widest if len(self._ideal.admitted) > REMEMBERED else None:
            self._lived, self._ideal = (forget(window, widest, now) for window in (self._lived, self._ideal))


def _passes(window: Window, limit: Limit | None, one: Comparison) -> bool:
    return limit is None or judge(window, limit, one.mark, one.judged_at)[1]


def _counted(window: Window, limit: Limit, one: Comparison) -> Window:
    after, passed = judge(window, limit, one.mark, one.judged_at)
    return after if passed else count(window, Admitted(one.judged_at, mark_of(one.mark)))


def _counted_without_event(comparisons: Sequence[Comparison], limits: PairLimits) -> Window:
    """Who was counted by an attempt that came to no end, so that only its retry was recorded: some time before that."""
    queued = [one for one in comparisons if one.found == _QUEUED]
    known = count(Window(), *(Admitted(one.judged_at, one.mark) for one in queued if one.counted))
    unrecorded = Window()
    for one in queued:
        limit = limits.near(one.at)[0]
        if limit and one.counted is False and not known.knows(one.mark):
            times = [admitted.at for admitted in known.admitted]
            if fits(times, limit, one.judged_at):
                admitted = Admitted(one.judged_at, one.mark)
                known, unrecorded = count(known, admitted), count(unrecorded, admitted)
    return unrecorded


def _judge(one: Comparison, first: str | None, *, passes: bool, elsewhere: bool) -> Verdict | None:
    """`first` is the receipt that was, or should have been, queued before this one.

    `elsewhere` says that another receipt has or had the claim, or may rightly have been refused.
    """
    if one.found == _QUEUED:
        return _judge_queued(one, first, passes=passes)
    if one.against or not one.sure or elsewhere or first or not passes or one.full:
        return None
    if one.found in one.refusals:
        return None
    if one.found is None and one.of_envelope in {None, EnvelopeDecision.MATCHED}:
        undecided = "never decided" if one.of_envelope is None else "matched, but no notification decided"
        return Difference.MISSING, undecided
    return Difference.WRONGLY_DROPPED, f"{one.found or one.of_envelope}, which nothing bears out"


def _judge_queued(one: Comparison, first: str | None, *, passes: bool) -> Verdict | None:
    if one.against:
        return Difference.UNEXPECTED, one.against
    if first not in {None, one.receipt}:
        return Difference.UNEXPECTED, f"already queued under receipt {first}"
    if not passes:
        return Difference.UNEXPECTED, "over the limit"
    if one.overfull:
        return Difference.UNEXPECTED, "over the cap of its subscription"
    return None


def _replay_batches(batches: Iterable[pa.RecordBatch], history: LimitHistory) -> Iterator[pa.RecordBatch]:
    comparisons = (Comparison(*row) for batch in batches for row in _rows(batch))
    for (network, sender, _), of_pair in groupby(comparisons, key=attrgetter(*_PAIR)):
        limits = history.of_pair(network, sender)
        found = [_row(one, verdict) for one, verdict in replay(list(of_pair), limits)]
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_ARROW)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _row(one: Comparison, verdict: Verdict) -> dict[str, object]:
    difference, evidence = verdict
    return one._asdict() | {"difference": difference, "evidence": evidence}
