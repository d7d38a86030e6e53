"""Replay admission, pair by pair in order, with the limiter that the live path uses.

The replay follows what the live system did: each decision is judged by the state its predecessors really left behind.
So one fault is one difference, and not the start of a chain of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from clarion.decisions import NotificationDecision
from clarion.limiter import Admitted, Limit, Window, count, fits, forget, judge, mark_of
from pipeline.differences import REPAIRABLE, Difference

REMEMBERED = 5_000
"""Admissions of a pair beyond which those are forgotten that can have no bearing any more."""

_QUEUED, _LIMITED, _CAPPED = map(
    str, (NotificationDecision.QUEUED, NotificationDecision.RATE_LIMITED, NotificationDecision.CAPPED)
)

CONTRADICTIONS = StructType([
    StructField("receipt", StringType()),
    StructField("subscription_id", StringType()),
    StructField("envelope_id", BinaryType()),
    StructField("sender", BinaryType()),
    StructField("client_id", BinaryType()),
    StructField("topic", BinaryType()),
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


class Attempt(NamedTuple):
    """One statement for one subscription.

    `found` is what the live system decided, if it did; `against` says why the subscription has no claim to it, if so;
    `sure` whether it surely had one; `told` what the live system said of the statement. What is not `judged` lies
    outside the period and only sets the scene. `judged_at` is the time that the limit judged it by, or would have, and
    `counted` whether it was the first to be counted. `full` says whether its subscription had reached the cap, and
    `overfull` that it was sent twice as much.
    """

    receipt: str
    subscription_id: str
    envelope_id: bytes
    sender: bytes
    client_id: bytes
    topic: bytes
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
    sure: bool
    told: str | None
    judged: bool

    @property
    def key(self) -> tuple[bytes, str]:
        return self.envelope_id, self.subscription_id

    @property
    def mark(self) -> bytes:
        return mark_of(self.envelope_id)


type Verdict = tuple[Difference, str]


def contradictions(attempts: DataFrame, limit: Limit) -> DataFrame:
    """Those of `attempts` (columns of `Attempt`) where the replay says otherwise than the live system did."""
    columns = attempts.select(*Attempt._fields)
    by_pair = columns.repartition("sender", "client_id").sortWithinPartitions("sender", "client_id", "at")
    return by_pair.mapInArrow(partial(_replay_batches, limit=limit), CONTRADICTIONS)


def replay(attempts: Sequence[Attempt], limit: Limit) -> Iterator[tuple[Attempt, Verdict]]:
    """Judge one pair's attempts, which are sorted by time."""
    holders = _holders(attempts)
    if len(attempts) <= limit.count:  # then no window can ever be full
        passes = dict.fromkeys(range(len(attempts)), True)
        ordered: Sequence[Attempt] = attempts
    else:
        ordered = in_order(attempts)
        passes = dict(enumerate(_follow(ordered, limit)))
    queued: dict[tuple[bytes, str], str] = {}
    for number, attempt in enumerate(ordered):
        first = queued.get(attempt.key)
        elsewhere = bool(holders.get(attempt.key, set()) - {attempt.receipt})
        verdict = _judge(attempt, first, passes=passes[number], elsewhere=elsewhere) if attempt.judged else None
        if verdict:
            yield attempt, verdict
        if attempt.found == _QUEUED or (verdict and verdict[0] in REPAIRABLE):
            queued.setdefault(attempt.key, attempt.receipt)


def in_order(attempts: Sequence[Attempt]) -> list[Attempt]:
    """A pair's attempts as they happened: by time, but by the version of the pair's window where that is known."""
    times: dict[Attempt, int] = {}
    latest = 0
    for attempt in sorted((one for one in attempts if one.order is not None), key=_by_version):
        latest = times[attempt] = max(latest, attempt.at)
    return sorted(attempts, key=lambda one: (times.get(one, one.at), one.order or 0, one.found != _QUEUED))


def _by_version(attempt: Attempt) -> tuple[int, int]:
    return attempt.order or 0, attempt.at


def _holders(attempts: Iterable[Attempt]) -> dict[tuple[bytes, str], set[str]]:
    """By statement and subscription, the receipts that may hold its claim: one that was over the limit has claimed."""
    holders: dict[tuple[bytes, str], set[str]] = {}
    for attempt in attempts:
        if attempt.found in {_QUEUED, _LIMITED}:
            holders.setdefault(attempt.key, set()).add(attempt.receipt)
    return holders


def _follow(attempts: Sequence[Attempt], limit: Limit) -> Iterator[bool]:
    """Whether the limit lets each of a pair's attempts pass, after what the live system has really let pass.

    What the live system never saw is judged by a second window, in which it would have been counted as well.
    """
    lived = ideal = _counted_without_event(attempts, limit)
    for attempt in attempts:
        mark, at = attempt.mark, attempt.judged_at
        if attempt.found is None:
            ideal, passed = judge(ideal, limit, mark, at)
        elif attempt.found == _CAPPED:
            _, passed = judge(lived, limit, mark, at)
        elif attempt.found == _QUEUED:
            _, passed = judge(lived, limit, mark, at)
            lived, ideal = (_count(window, limit, attempt) for window in (lived, ideal))
        elif attempt.found == _LIMITED:
            lived_after, passes_lived = judge(lived, limit, mark, at)
            ideal_after, passes_ideal = judge(ideal, limit, mark, at)
            # The live system may have counted some whose events were lost.
            passed = passes_lived and passes_ideal
            if not passed:
                lived, ideal = lived if passes_lived else lived_after, ideal_after
        else:
            passed = True
        yield passed
        lived, ideal = (_pruned(window, limit, attempt.at) for window in (lived, ideal))


def _counted_without_event(attempts: Sequence[Attempt], limit: Limit) -> Window:
    """Who was counted by an attempt that came to no end, so that only its retry was told: some time before that."""
    queued = [attempt for attempt in attempts if attempt.found == _QUEUED]
    told = count(Window(), *(Admitted(one.judged_at, one.mark) for one in queued if one.counted))
    untold = Window()
    for one in queued:
        if one.counted is False and not told.knows(one.mark):
            times = [admitted.at for admitted in told.admitted]
            if fits(times, limit, one.judged_at):
                told, untold = (count(window, Admitted(one.judged_at, one.mark)) for window in (told, untold))
    return untold


def _count(window: Window, limit: Limit, attempt: Attempt) -> Window:
    """The window after this one did pass. One that should not have counts, but for itself: it takes no other along."""
    after, passed = judge(window, limit, attempt.mark, attempt.judged_at)
    return after if passed else count(window, Admitted(attempt.judged_at, mark_of(attempt.mark)))


def _pruned(window: Window, limit: Limit, now: int) -> Window:
    return forget(window, limit, now) if len(window.admitted) > REMEMBERED else window


def _judge(attempt: Attempt, first: str | None, *, passes: bool, elsewhere: bool) -> Verdict | None:
    """`first` is the receipt that was, or should have been, queued before this one; `elsewhere`: another receipt has or had the claim."""
    if attempt.found == _QUEUED:
        return _judge_queued(attempt, first, passes=passes)
    if attempt.against or not attempt.sure or elsewhere or first or not passes or attempt.full:
        return None
    if attempt.found is None and attempt.told in {None, "matched"}:
        return Difference.MISSING, "never decided" if attempt.told is None else "matched, but no notification decided"
    return Difference.WRONGLY_DROPPED, f"told {attempt.found or attempt.told}, but it should have been queued"


def _judge_queued(attempt: Attempt, first: str | None, *, passes: bool) -> Verdict | None:
    if attempt.against:
        return Difference.UNEXPECTED, attempt.against
    if first not in {None, attempt.receipt}:
        return Difference.UNEXPECTED, f"already queued under receipt {first}"
    if not passes:
        return Difference.UNEXPECTED, "over the limit"
    if attempt.overfull:
        return Difference.UNEXPECTED, "over the cap of its subscription"
    return None


def _replay_batches(batches: Iterable[pa.RecordBatch], limit: Limit) -> Iterator[pa.RecordBatch]:
    attempts = (Attempt(*row) for batch in batches for row in _rows(batch))
    for _, of_pair in groupby(attempts, key=attrgetter("sender", "client_id")):
        found = [_row(attempt, verdict) for attempt, verdict in replay(list(of_pair), limit)]
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_ARROW)


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _row(attempt: Attempt, verdict: Verdict) -> dict[str, object]:
    difference, evidence = verdict
    return attempt._asdict() | {"difference": difference, "evidence": evidence}
