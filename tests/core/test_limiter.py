from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clarion.limiter import (
    LATENESS,
    MAX_PACKED_BYTES,
    SKEW,
    Admitted,
    Cooldown,
    Limit,
    Window,
    fits,
    forget,
    forgotten,
    judge,
    judged_at,
    mark_of,
    pack,
    pack_cooldowns,
    remembered_since,
    set_aside,
    unpack,
    unpack_cooldowns,
)

LIMIT = Limit(count=30, window=60_000, cooldown=120_000)


def mark(number: int) -> bytes:
    return number.to_bytes(8)


def judge_all(window: Window, numbers: range, at: int, limit: Limit = LIMIT) -> tuple[Window, list[bool]]:
    verdicts = []
    for number in numbers:
        window, passed = judge(window, limit, mark(number), at)
        verdicts.append(passed)
    return window, verdicts


def fullest(times: list[int], limit: Limit) -> int:
    """The most that lie within less than a window."""
    return max((sum(first <= at < first + limit.window for at in times) for first in times), default=0)


def test_the_limit_itself_passes() -> None:
    _, verdicts = judge_all(Window(), range(30), at=0)
    assert all(verdicts)


def test_the_one_after_the_limit_starts_the_cooldown_at_the_time_it_was_observed() -> None:
    window, verdicts = judge_all(Window(), range(31), at=5)
    assert verdicts == [True] * 30 + [False]
    assert window.cooldowns == (Cooldown(5, 120_005),)


def test_a_cooldown_refuses_what_was_observed_in_it_and_nothing_before_or_after() -> None:
    window, _ = judge_all(Window(), range(31), at=200_000)
    times = (199_999, 200_000, 319_999, 320_000)
    assert [window.refuses(at) for at in times] == [False, True, True, False]
    assert judge_all(window, range(40, 41), at=100_000)[1] == [True]


def test_an_attempt_in_the_cooldown_does_not_prolong_it() -> None:
    window, _ = judge_all(Window(), range(31), at=0)
    assert judge_all(window, range(40, 50), at=60_000) == (window, [False] * 10)


@pytest.mark.parametrize(("at", "passes"), [(59_999, False), (60_000, True)])
def test_the_window_slides_and_does_not_start_anew(at: int, *, passes: bool) -> None:
    window, _ = judge_all(Window(), range(1), at=0)
    window, _ = judge_all(window, range(1, 30), at=59_000)
    assert judge_all(window, range(30, 31), at=at)[1] == [passes]


def test_one_that_was_observed_between_others_may_not_fill_any_window_around_it() -> None:
    window, _ = judge_all(Window(), range(15), at=100_000)
    window, _ = judge_all(window, range(15, 30), at=150_000)
    assert judge_all(window, range(30, 31), at=90_001)[1] == [False]
    assert judge_all(window, range(30, 31), at=125_000)[1] == [False]
    assert judge_all(window, range(30, 31), at=90_000)[1] == [True]


def test_a_retry_passes_again_and_is_counted_once_even_in_the_cooldown_its_own_burst_began() -> None:
    window, _ = judge_all(Window(), range(31), at=0)
    assert judge_all(window, range(30), at=0) == (window, [True] * 30)
    assert judge_all(window, range(30, 31), at=0) == (window, [False])


def test_cooldowns_that_overlap_become_one() -> None:
    window, _ = judge_all(Window(), range(31), at=100_000)
    window, _ = judge_all(window, range(100, 131), at=20_000)
    window, _ = judge_all(window, range(200, 231), at=900_000)
    assert window.cooldowns == (Cooldown(20_000, 220_000), Cooldown(900_000, 1_020_000))


def test_a_cooldown_revokes_nothing() -> None:
    window, _ = judge_all(Window(), range(1), at=130_000)
    window, _ = judge_all(window, range(100, 131), at=50_000)
    assert window.refuses(130_000)
    assert window.knows(mark(0))


def test_what_comes_after_an_hour_is_judged_as_if_observed_an_hour_ago() -> None:
    now = 10 * LATENESS
    assert judged_at(now - LATENESS + 1, now) == now - LATENESS + 1
    assert judged_at(now - 2 * LATENESS, now) == now - LATENESS


def test_a_clock_that_is_ahead_is_believed_for_a_few_seconds() -> None:
    assert judged_at(9_000_000 + SKEW, 9_000_000) == 9_000_000 + SKEW
    assert judged_at(99_000_000, 9_000_000) == 9_000_000 + SKEW


def test_the_mark_is_of_the_statement_alone() -> None:
    assert len({mark_of(bytes([number]) * 32) for number in range(3)}) == 3


@given(st.lists(st.builds(Admitted, st.integers(0, 2**48 - 1), st.binary(min_size=8, max_size=8))))
def test_packing_keeps_every_admission(admitted: list[Admitted]) -> None:
    assert unpack(pack(admitted)) == tuple(admitted)


@given(st.lists(st.builds(Cooldown, st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1))))
def test_packing_keeps_every_cooldown(cooldowns: list[Cooldown]) -> None:
    assert unpack_cooldowns(pack_cooldowns(cooldowns)) == tuple(cooldowns)


def test_the_table_item_of_a_full_window_fits_one_write_unit() -> None:
    numbers = {"paged_until": 8, "version": 8, "ttl": 7}
    attributes = {"scope": 64, "part": 1, "admitted": MAX_PACKED_BYTES, "cooldowns": 0, **numbers}
    assert sum(len(name) + size for name, size in attributes.items()) <= 1024


limits = st.builds(Limit, st.integers(1, 5), st.integers(1, 50), st.integers(0, 100))
observations = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 300)), max_size=60)


@dataclass
class Plainly:
    """The rule said again, without a care for speed: every admission ever, and every cooldown by its begin."""

    limit: Limit
    admitted: dict[bytes, int] = field(default_factory=dict)
    begins: list[int] = field(default_factory=list)

    def judge(self, mark: bytes, at: int) -> bool:
        if mark in self.admitted:
            return True
        if any(begin <= at < begin + self.limit.cooldown for begin in self.begins):
            return False
        if fullest([*self.admitted.values(), at], self.limit) > self.limit.count:
            self.begins.append(at)
            return False
        self.admitted[mark] = at
        return True


@settings(max_examples=500)
@given(limits, observations)
def test_it_decides_as_the_plain_model_does_in_any_order_of_arrival(
    limit: Limit, observations: list[tuple[int, int]]
) -> None:
    plain, window = Plainly(limit), Window()
    for number, at in observations:
        window, passed = judge(window, limit, mark(number), at)
        assert passed == plain.judge(mark(number), at)
    assert {one.mark: one.at for one in window.admitted} == plain.admitted
    assert list(window.admitted) == sorted(window.admitted)


@given(limits, st.lists(st.integers(0, 300), max_size=60))
def test_in_any_order_no_window_holds_more_than_the_limit(limit: Limit, times: list[int]) -> None:
    window = Window()
    for number, at in enumerate(times):
        window, _ = judge(window, limit, mark(number), at)
    assert fullest([one.at for one in window.admitted], limit) <= limit.count


@given(limits, st.lists(st.integers(0, 300), max_size=60), st.randoms(use_true_random=False))
def test_in_any_order_a_lawful_pace_is_never_refused(limit: Limit, times: list[int], lot: st.DataObject) -> None:
    lawful: list[int] = []
    for at in sorted(times):
        if fits(lawful, limit, at):
            lawful.append(at)
    asked = list(enumerate(lawful))
    asked += asked[::3]
    lot.shuffle(asked)  # type: ignore[attr-defined] # it is a Random
    window = Window()
    for number, at in asked:
        window, passed = judge(window, limit, mark(number), at)
        assert passed


@given(limits, observations)
def test_asked_again_every_verdict_is_the_same(limit: Limit, observations: list[tuple[int, int]]) -> None:
    window, verdicts = Window(), []
    firsts = dict(reversed(observations))
    for number, at in firsts.items():
        window, passed = judge(window, limit, mark(number), at)
        verdicts.append((number, at, passed))
    for number, at, passed in verdicts:
        assert judge(window, limit, mark(number), at)[1] == passed or not limit.cooldown


MINUTE = 60_000
late_arrivals = st.lists(
    st.tuples(st.integers(0, 10 * MINUTE), st.integers(0, LATENESS), st.integers(1, 31)), max_size=25
)


@given(late_arrivals)
def test_memory_is_bounded_and_nothing_is_forgotten_that_has_a_bearing(arrivals: list[tuple[int, int, int]]) -> None:
    """Frames of one to thirty-one statements, each up to an hour late, through a row that sets pages aside."""
    whole, row, pages = Window(), Window(), set[Admitted]()
    paged_until, now, number = 0, 100 * LATENESS, 0
    for pause, lateness, frame in arrivals:
        now += pause
        at = now - lateness
        since = remembered_since(LIMIT, at, now)
        known = row if since >= paged_until else Window(tuple(sorted({*row.admitted, *pages})), row.cooldowns)
        after = known
        for _ in range(frame):
            number += 1
            after, passed = judge(after, LIMIT, mark(number), at)
            whole, rightly = judge(whole, LIMIT, mark(number), at)
            assert passed == rightly
        own = tuple(one for one in after.admitted if one not in pages)
        kept, page = set_aside(row, forget(Window(own, after.cooldowns), LIMIT, now), LIMIT)
        row, pages = kept, pages | {*page}
        paged_until = max([paged_until, *(one.at for one in page)])
        assert row.size <= MAX_PACKED_BYTES + 31 * 14
    held = {*row.admitted, *pages}
    assert {one for one in whole.admitted if one.at >= forgotten(LIMIT, now)} <= held


def test_statements_that_come_in_order_never_need_a_page() -> None:
    row, paged_until = Window(), 0
    for number in range(400):
        at = 100 * LATENESS + number * 2_000
        assert remembered_since(LIMIT, at, at) >= paged_until
        after, passed = judge(row, LIMIT, mark(number), at)
        assert passed
        row, page = set_aside(row, forget(after, LIMIT, at), LIMIT)
        paged_until = page[-1].at if page else paged_until
        assert row.size <= MAX_PACKED_BYTES
    assert paged_until


@dataclass
class Table:
    """A row with a version, as DynamoDB's conditional put sees it."""

    window: Window = field(default_factory=Window)
    version: int = 0

    def put(self, window: Window, seen: int) -> bool:
        if seen != self.version:
            return False
        self.window, self.version = window, seen + 1
        return True


@dataclass
class Worker:
    """Reads, then writes what it decided, with whatever happens in between; after a lost race it decides anew."""

    table: Table
    asking: list[tuple[bytes, int]]
    seen: tuple[Window, int] | None = None
    passed: list[bytes] = field(default_factory=list)

    def step(self, limit: Limit) -> None:
        if not self.asking:
            return
        if self.seen is None:
            self.seen = self.table.window, self.table.version
            return
        read, version = self.seen
        mark, at = self.asking[0]
        window, passed = judge(read, limit, mark, at)
        self.seen = None
        if window == read or self.table.put(window, version):
            self.passed += [mark] if passed else []
            self.asking = self.asking[1:]


schedules = st.lists(st.integers(0, 4), max_size=120)
times = st.lists(st.integers(0, 200), min_size=100, max_size=100)


@settings(max_examples=300)
@given(limits, times, schedules)
def test_racing_workers_admit_no_more_than_one_would(limit: Limit, times: list[int], schedule: list[int]) -> None:
    table = Table()
    asking = [(mark(number), at) for number, at in enumerate(times)]
    workers = [Worker(table, asking[name::5]) for name in range(5)]
    for name in schedule:
        workers[name].step(limit)
    assert fullest([one.at for one in table.window.admitted], limit) <= limit.count
    assert sorted(passed for worker in workers for passed in worker.passed) == sorted(
        one.mark for one in table.window.admitted
    )
