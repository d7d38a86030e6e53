from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clarion.limiter import REMEMBERED, RETRIES, Admission, Limit, Window, admit, make_room, mark_of, pack, unpack

LIMIT = Limit(count=30, window=60_000, cooldown=120_000)


def mark(number: int) -> bytes:
    return number.to_bytes(8)


def admit_all(window: Window, numbers: range, now: int, limit: Limit = LIMIT) -> tuple[Window, list[bool]]:
    return admit(window, limit, [mark(number) for number in numbers], now)


def test_the_limit_itself_passes() -> None:
    _, verdicts = admit_all(Window(), range(30), now=0)
    assert all(verdicts)


def test_the_one_after_the_limit_starts_the_cooldown() -> None:
    window, verdicts = admit_all(Window(), range(31), now=5)
    assert verdicts == [True] * 30 + [False]
    assert window.cooldown_until == 120_005


def test_all_are_refused_until_the_cooldown_ends() -> None:
    window, _ = admit_all(Window(), range(31), now=0)
    assert admit_all(window, range(40, 41), now=119_999) == (window, [False])
    assert admit_all(window, range(40, 41), now=120_000)[1] == [True]


def test_an_attempt_in_the_cooldown_does_not_prolong_it() -> None:
    window, _ = admit_all(Window(), range(31), now=0)
    window, _ = admit_all(window, range(40, 50), now=60_000)
    assert window.cooldown_until == 120_000


@pytest.mark.parametrize(("now", "passes"), [(59_999, False), (60_000, True)])
def test_the_window_slides_and_does_not_start_anew(now: int, *, passes: bool) -> None:
    window, _ = admit_all(Window(), range(1), now=0)
    window, _ = admit_all(window, range(1, 30), now=59_000)
    assert admit_all(window, range(30, 31), now=now)[1] == [passes]


def test_a_retry_passes_again_and_is_counted_once() -> None:
    window, _ = admit_all(Window(), range(29), now=0)
    window, _ = admit_all(window, range(29), now=1_000)
    assert admit_all(window, range(29, 30), now=2_000)[1] == [True]


def test_a_retry_of_an_admitted_one_passes_even_in_the_cooldown() -> None:
    window, _ = admit_all(Window(), range(31), now=0)
    assert not window.refuses(LIMIT, mark(3), 0, now=1_000)
    assert admit_all(window, range(3, 4), now=1_000) == (window, [True])
    assert window.refuses(LIMIT, mark(30), 0, now=1_000)


def test_a_retry_is_known_long_after_its_window() -> None:
    window, _ = admit_all(Window(), range(1), now=0)
    window, _ = admit_all(window, range(1, 30), now=200_000)
    assert window.knows(mark(0))


def test_a_clock_that_lags_cannot_open_the_window_early() -> None:
    window, _ = admit_all(Window(), range(30), now=100_000)
    window, verdicts = admit_all(window, range(30, 31), now=30_000)
    assert verdicts == [False]
    assert window.cooldown_until == 220_000


def test_memory_is_bounded() -> None:
    window = Window()
    for number in range(200):
        window, _ = admit(window, LIMIT, [mark(number)], now=number * 10_000)
    assert len(window.admitted) == REMEMBERED


def test_the_table_item_of_a_full_memory_fits_one_write_unit() -> None:
    numbers = {"cooldown_until": 8, "pages": 4, "paged_until": 8, "version": 6, "ttl": 6}
    attributes = {"pair": 64, "admitted": 14 * REMEMBERED, **numbers}
    assert sum(len(name) + size for name, size in attributes.items()) < 1024


def test_what_was_observed_before_a_cooldowns_end_is_refused_for_good() -> None:
    window, _ = admit_all(Window(), range(31), now=10_000)
    assert [window.refuses(LIMIT, mark(99), at, now=900_000) for at in (0, 10_000, 129_999)] == [True] * 3
    assert not window.refuses(LIMIT, mark(99), 130_000, now=130_000)


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 30)), max_size=30))
def test_no_admission_is_forgotten_while_a_retry_may_ask_for_it(arrivals: list[tuple[int, int]]) -> None:
    window, now, number = Window(), 0, 0
    counted: dict[bytes, int] = {}
    kept: dict[bytes, int] = {}
    for pause, asking in arrivals:
        now += pause
        marks = [mark(number + more) for more in range(asking)]
        number += asking
        window, page = make_room(window, LIMIT, asking, now)
        kept |= {admission.mark: admission.at for admission in page}
        window, verdicts = admit(window, LIMIT, marks, now)
        counted |= {one: now for one, passed in zip(marks, verdicts, strict=True) if passed}
        assert len(window.admitted) <= REMEMBERED
    known = kept | {admission.mark: admission.at for admission in window.admitted}
    assert {one for one, at in counted.items() if at > now - RETRIES} <= known.keys()


def test_one_statement_has_a_mark_for_each_subscription() -> None:
    assert len({mark_of(b"h" * 32, "a"), mark_of(b"h" * 32, "b"), mark_of(b"i" * 32, "a")}) == 3


@given(st.lists(st.builds(Admission, st.integers(0, 2**48 - 1), st.binary(min_size=8, max_size=8))))
def test_packing_keeps_every_admission(admitted: list[Admission]) -> None:
    assert unpack(pack(admitted)) == tuple(admitted)


@dataclass
class Plainly:
    """The rule said again, without a care for memory: every admission ever, and every cooldown."""

    limit: Limit
    admitted: dict[bytes, int] = field(default_factory=dict)
    cooldown_until: int = 0

    def admit(self, mark: bytes, now: int) -> bool:
        if mark in self.admitted:
            return True
        if now < self.cooldown_until:
            return False
        if len([at for at in self.admitted.values() if now - at < self.limit.window]) >= self.limit.count:
            self.cooldown_until = now + self.limit.cooldown
            return False
        self.admitted[mark] = now
        return True


limits = st.builds(Limit, st.integers(1, 5), st.integers(1, 50), st.integers(0, 100))
arrivals = st.lists(st.tuples(st.integers(0, 20), st.lists(st.integers(0, 20), max_size=4)), max_size=30)


@given(limits, arrivals)
def test_it_decides_as_the_plain_model_does(limit: Limit, arrivals: list[tuple[int, list[int]]]) -> None:
    plain, window, now = Plainly(limit), Window(), 0
    for pause, numbers in arrivals:
        now += pause
        window, verdicts = admit(window, limit, [mark(number) for number in numbers], now)
        assert verdicts == [plain.admit(mark(number), now) for number in numbers]
        assert window.cooldown_until == plain.cooldown_until


@given(limits, st.lists(st.integers(0, 400), max_size=100))
def test_no_span_of_a_window_holds_more_than_the_limit_whatever_the_clocks_say(limit: Limit, clocks: list[int]) -> None:
    window, times = Window(), []
    for number, now in enumerate(clocks):
        window, [passed] = admit(window, limit, [mark(number)], now)
        if passed:
            times.append(window.admitted[-1].at)
    for first in times:
        assert sum(first <= at < first + limit.window for at in times) <= limit.count


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
    marks: list[bytes]
    seen: tuple[Window, int] | None = None
    passed: list[bytes] = field(default_factory=list)

    def step(self, limit: Limit, now: int) -> None:
        if not self.marks:
            return
        if self.seen is None:
            self.seen = self.table.window, self.table.version
            return
        read, version = self.seen
        window, [passed] = admit(read, limit, self.marks[:1], now)
        self.seen = None
        if window == read or self.table.put(window, version):
            self.passed += self.marks[:1] if passed else []
            self.marks = self.marks[1:]


schedules = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(-2, 2)), max_size=120)


@settings(max_examples=500)
@given(limits, schedules)
def test_racing_workers_with_clocks_of_their_own_admit_no_more_than_one_would(
    limit: Limit, schedule: list[tuple[int, int, int]]
) -> None:
    table, now, admitted = Table(), 10, dict[bytes, int]()
    workers = [Worker(table, [mark(100 * name + number) for number in range(20)]) for name in range(5)]
    for name, pause, skew in schedule:
        now += pause
        workers[name].step(limit, now + skew)
        admitted |= {admission.mark: admission.at for admission in table.window.admitted}
    for first in admitted.values():
        assert sum(first <= at < first + limit.window for at in admitted.values()) <= limit.count
    assert sorted(passed for worker in workers for passed in worker.passed) == sorted(admitted)
