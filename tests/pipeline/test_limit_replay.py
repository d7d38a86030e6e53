"""The replay of one pair's limits; tests/pipeline/test_verdicts.py has whole histories."""

import gc
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.limiter import Admitted, Limit, Window, count, judge, mark_of
from pipeline.findings import Difference
from pipeline.in_force.limits import LimitHistory, LimitSpan, PairLimits
from pipeline.period import FOREVER
from pipeline.reconciliation import limit_replay
from pipeline.reconciliation.limit_replay import PairAttempt, PairReplay, replay_batches

LIMIT = Limit(count=3, window=60_000, cooldown=120_000)
LONGER = Limit(count=2, window=60_000, cooldown=600_000)
CAP = Limit(count=300, window=60_000, cooldown=0)
ALWAYS = PairLimits([LimitSpan(0, FOREVER, LIMIT, CAP)])
HISTORY = LimitHistory({"statements": ALWAYS.spans})
HOUR = 3_600_000
NAMES = ("receipt", "difference", "evidence")


def attempt(
    number: int, at: int, found: str | None, *, judged_at: int | None = None, counted: bool = True
) -> PairAttempt:
    return PairAttempt(number.to_bytes(32), found, at, at if judged_at is None else judged_at, counted)


def passes(history: Sequence[PairAttempt], limits: PairLimits = ALWAYS) -> list[bool]:
    replayed = PairReplay(limits)
    return [replayed.passes(one) for one in history]


def lived(times: Sequence[int]) -> list[PairAttempt]:
    """What a naive system decides that gets one envelope at each of `times`, which rise."""
    admitted: list[int] = []
    cooldown = 0
    history = []
    for number, at in enumerate(times):
        if at < cooldown:
            found = "rate_limited"
        elif sum(at - earlier < LIMIT.window for earlier in admitted) >= LIMIT.count:
            cooldown, found = at + LIMIT.cooldown, "rate_limited"
        else:
            admitted.append(at)
            found = "queued"
        history.append(attempt(number, at, found))
    return history


@dataclass
class WholeWindow:
    """The replay of what was queued or limited, by a window that is never narrowed nor pruned."""

    window: Window = field(default_factory=Window)

    def passes(self, one: PairAttempt) -> bool:
        mark = mark_of(one.envelope_id)
        after, passed = judge(self.window, LIMIT, mark, one.judged_at)
        if one.found == "queued" and not passed:
            after = count(self.window, Admitted(one.judged_at, mark_of(mark)))
        elif one.found == "rate_limited" and passed:
            after = self.window
        self.window = after
        return passed


times = st.lists(st.integers(0, 20 * 60_000), min_size=1, max_size=60, unique=True).map(sorted)
decided = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.sampled_from(["queued", "queued", "rate_limited"]),
        st.integers(0, 400_000),
        st.sampled_from([0, 0, 10, 90_000, HOUR - 1]),
    ),
    max_size=40,
)


@given(times)
def test_a_limiter_that_counted_right_let_pass_what_passes(moments: list[int]) -> None:
    history = lived(moments)
    assert passes(history) == [one.found == "queued" for one in history]


@given(decided)
def test_a_replay_says_what_the_whole_window_would(rows: list[tuple[int, str, int, int]]) -> None:
    history = [attempt(number, at, found, judged_at=at - late) for number, found, at, late in rows]
    in_order = sorted(history, key=lambda one: one.at)
    whole = WholeWindow()
    assert passes(in_order) == [whole.passes(one) for one in in_order]


@given(decided)
def test_what_is_forgotten_has_no_bearing(rows: list[tuple[int, str, int, int]]) -> None:
    history = sorted(
        (attempt(number, 30 * at, found, judged_at=30 * at - late) for number, found, at, late in rows),
        key=lambda one: one.at,
    )
    seldom = passes(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limit_replay, "PRUNED_EVERY", 1)
        assert passes(history) == seldom


@given(times, st.data())
def test_what_was_lost_disturbs_nothing_else(moments: list[int], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(moments)))
    history = lived(moments)
    right = passes(history)
    history.insert(lost, attempt(1_000, moments[lost - 1] + 1 if lost else 0, None))
    with_lost = passes(history)
    del with_lost[lost]
    assert with_lost == right


@given(st.permutations(range(12)), st.lists(st.integers(0, 300_000), min_size=12, max_size=12))
def test_a_history_that_the_limiter_made_is_borne_out(order: list[int], observed: list[int]) -> None:
    window, history = Window(), []
    for version, number in enumerate(order):
        window, passed = judge(window, LIMIT, mark_of(number.to_bytes(32)), observed[number])
        found = "queued" if passed else "rate_limited"
        history.append(attempt(number, HOUR + version, found, judged_at=observed[number]))
    assert passes(history) == [one.found == "queued" for one in history]


@pytest.mark.parametrize("found", ["queued", "rate_limited"])
def test_next_to_a_change_either_limit_is_right(found: str) -> None:
    changing = PairLimits([LimitSpan(0, HOUR, LIMIT, CAP), LimitSpan(HOUR, FOREVER, LONGER, CAP)], grace=HOUR)
    assert passes([*lived([0, 1]), attempt(2, 2, found)], changing)[-1] == (found == "queued")


@pytest.mark.parametrize("found", ["duplicate", "unmatched", None])
def test_what_was_dropped_for_another_reason_would_have_passed_only_after_the_cooldown(found: str | None) -> None:
    history = [*(attempt(number, number, "queued") for number in range(3)), attempt(3, 3, "rate_limited")]
    assert not passes([*history, attempt(4, LIMIT.window, found)])[-1]
    assert passes([*history, attempt(4, LIMIT.cooldown + 4, found)])[-1]


def test_what_is_counted_later_leaves_no_space_for_an_attempt_without_an_event() -> None:
    counted = [attempt(number, number, "queued")._replace(ahead=True) for number in range(3)]
    retried = attempt(7, 9_000, "queued", judged_at=5, counted=False)
    ahead = [*counted, retried._replace(ahead=True)]
    assert passes([*ahead, *(one._replace(ahead=False) for one in counted), retried])[-1] is False
    assert passes([*ahead[1:], *(one._replace(ahead=False) for one in counted[1:]), retried])[-1] is True


def batch(
    rows: Sequence[PairAttempt], *, may_reach_limit: bool = True, client: bytes = b"c", **other: object
) -> pa.RecordBatch:
    """As Spark gives them: here all have the receipt `r`, are judged, and nothing else is wrong with them."""
    same = {
        "network": "statements",
        "sender": b"a",
        "client_id": client,
        "receipt": "r",
        "may_reach_limit": may_reach_limit,
    }
    columns: dict[str, pa.Array] = {
        name: pa.array([value] * len(rows)) for name, value in (same | {"judged": True}).items()
    }
    columns |= {name: pa.array([other.get(name)] * len(rows), pa.string()) for name in NAMES[1:]}
    columns |= {name: pa.array([getattr(one, name) for one in rows]) for name in PairAttempt._fields}
    return pa.RecordBatch.from_pydict(columns)


def contradicted(*batches: pa.RecordBatch) -> list[dict[str, str]]:
    return [row for found in replay_batches(iter(batches), HISTORY, NAMES) for row in found.to_pylist()]


def test_a_pair_goes_on_from_one_batch_to_the_next() -> None:
    rows = [attempt(number, number, "queued") for number in range(4)]
    over = {"receipt": "r", "difference": Difference.UNEXPECTED, "evidence": limit_replay.OVER_THE_LIMIT}
    assert contradicted(batch(rows)) == [over]
    assert contradicted(*(batch([one]) for one in rows)) == [over]
    assert contradicted(batch(rows[:2]), batch(rows[2:], client=b"another")) == []


def test_what_is_wrong_anyway_in_pairs_that_are_not_crowded_goes_through_as_one_batch() -> None:
    lost = [
        batch([attempt(1, 1, "duplicate")], may_reach_limit=False, client=bytes([n]), difference="missing")
        for n in range(9)
    ]
    together = pa.Table.from_batches(lost).combine_chunks().to_batches()
    [quiet, replayed] = replay_batches(iter(together), HISTORY, NAMES)
    assert quiet.column("difference").to_pylist() == ["missing"] * 9
    assert replayed.num_rows == 0


@pytest.mark.parametrize("found", ["queued", "rate_limited"])
def test_what_is_kept_of_a_pair_does_not_grow_with_its_attempts(found: str) -> None:
    """Two hundred in each millisecond, all over the limit."""
    sizes: list[int] = []

    def attempts() -> Iterator[pa.RecordBatch]:
        for at in range(50):
            if at in {5, 49}:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
            yield batch([attempt(200 * at + number, at, found) for number in range(200)])

    tracemalloc.start()
    try:
        differ = sum(some.num_rows for some in replay_batches(attempts(), HISTORY, NAMES))
    finally:
        tracemalloc.stop()
    assert differ == (10_000 - LIMIT.count if found == "queued" else 0)
    assert sizes[1] - sizes[0] < 100_000
