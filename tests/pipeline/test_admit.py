from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.limiter import Limit, Window, judge, mark_of
from pipeline.admit import Comparison, in_order, replay
from pipeline.findings import Difference
from pipeline.limits import LimitSpan, PairLimits
from pipeline.period import FOREVER

LIMIT = Limit(count=3, window=60_000, cooldown=120_000)
CAP = Limit(count=300, window=60_000, cooldown=0)
ALWAYS = PairLimits([LimitSpan(0, FOREVER, LIMIT, CAP)])
HOUR = 3_600_000


def compared(
    number: int,
    at: int,
    found: str | None,
    *,
    observed_at: int | None = None,
    order: int | None = None,
    receipt: str = "",
    against: str | None = None,
    refusals: Sequence[str] = (),
    counted: bool | None = None,
    full: bool = False,
    overfull: bool = False,
    subscription_id: str = "s",
) -> Comparison:
    return Comparison(
        receipt=receipt or f"r{number}", subscription_id=subscription_id, envelope_id=number.to_bytes(32), sender=b"a",
        client_id=b"c", network="statements", key=b"t", channel="apns", wanted=None, at=at, order=order, found=found,
        observed_at=at if observed_at is None else observed_at, judged_at=at if observed_at is None else observed_at,
        counted=counted, full=full, overfull=overfull,
        against=against, refusals=refusals, sure=against is None, of_envelope=None if found is None else "matched", judged=True,
    )  # fmt: skip


def lived(times: Sequence[int]) -> list[Comparison]:
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
        history.append(compared(number, at, found))
    return history


def contradicted(history: Sequence[Comparison], limits: PairLimits = ALWAYS) -> list[tuple[str, Difference]]:
    return [(one.receipt, verdict[0]) for one, verdict in replay(history, limits)]


times = st.lists(st.integers(0, 20 * 60_000), min_size=1, max_size=60, unique=True).map(sorted)


@given(times)
def test_a_healthy_history_contradicts_nothing(moments: list[int]) -> None:
    assert contradicted(lived(moments)) == []


@given(times, st.data())
def test_what_was_lost_is_missing_and_disturbs_nothing_else(moments: list[int], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(moments)))
    history = lived(moments)
    history.insert(lost, compared(1_000, moments[lost - 1] + 1 if lost else 0, None))
    assert {receipt for receipt, _ in contradicted(history)} <= {"r1000"}


def test_a_drop_that_no_limit_bears_out_is_found_and_so_are_those_of_its_cooldown() -> None:
    history = [compared(number, number * HOUR, "queued") for number in range(4)]
    history += [compared(4, 4 * HOUR, "rate_limited"), compared(5, 4 * HOUR + 1_000, "rate_limited")]
    assert contradicted(history) == [("r4", Difference.WRONGLY_DROPPED), ("r5", Difference.WRONGLY_DROPPED)]


def test_what_went_over_the_limit_is_unexpected() -> None:
    history = [compared(number, number * 1_000, "queued") for number in range(5)]
    assert contradicted(history) == [("r3", Difference.UNEXPECTED), ("r4", Difference.UNEXPECTED)]


def flooded() -> list[Comparison]:
    """Three that pass, and a fourth that starts a cooldown of two minutes."""
    return [
        compared(number, number * 1_000, "queued" if number < LIMIT.count else "rate_limited") for number in range(4)
    ]


def test_what_was_observed_in_a_cooldown_is_rightly_refused_after_it() -> None:
    late = 3_000 + LIMIT.cooldown + 60_000
    assert contradicted([*flooded(), compared(4, late, "rate_limited", observed_at=100_000)]) == []
    assert contradicted([*flooded(), compared(4, late, "rate_limited")]) == [("r4", Difference.WRONGLY_DROPPED)]


def test_what_was_observed_in_a_cooldown_may_not_pass_after_it() -> None:
    late = 3_000 + LIMIT.cooldown + 60_000
    assert contradicted([*flooded(), compared(4, late, "queued", observed_at=100_000)]) == [
        ("r4", Difference.UNEXPECTED)
    ]
    assert contradicted([*flooded(), compared(4, late, "queued")]) == []


def test_a_flood_that_was_swallowed_is_missed_only_up_to_the_limit() -> None:
    history = [compared(number, number * 1_000, None) for number in range(10)]
    assert contradicted(history) == [(f"r{number}", Difference.MISSING) for number in range(3)]


def test_one_envelope_by_two_receipts_is_pushed_once() -> None:
    twice = [compared(1, 0, "queued"), compared(1, 9_000, "duplicate", receipt="again")]
    assert contradicted(twice) == []
    assert contradicted([twice[0], twice[1]._replace(found="queued")]) == [("again", Difference.UNEXPECTED)]
    assert contradicted([twice[0]._replace(found=None), twice[1]._replace(found="queued")]) == []
    assert contradicted([one._replace(found=None) for one in twice]) == [("r1", Difference.MISSING)]


def test_what_nobody_asked_for_is_unexpected_only_if_it_was_pushed() -> None:
    assert contradicted([compared(1, 0, "queued", against="bad_signature")]) == [("r1", Difference.UNEXPECTED)]
    assert contradicted([compared(1, 0, "duplicate", against="bad_signature")]) == []


def test_clocks_that_differ_by_a_second_make_no_difference() -> None:
    raced = [compared(number, 10_000 + number * 100, "queued", order=number + 1) for number in range(3)]
    refused = compared(3, 10_000 - 1_000, "rate_limited", order=4)
    history = sorted([*raced, refused], key=lambda one: one.at)
    assert in_order(history)[-1] == refused
    assert contradicted(history) == []


def test_of_two_phones_the_second_passes_uncounted() -> None:
    first = [compared(number, number, "queued", order=number + 1, counted=True) for number in range(3)]
    second = [one._replace(subscription_id="other", order=3, counted=False, at=9) for one in first]
    refused = compared(3, 10, "rate_limited", order=4, counted=True)
    assert contradicted([*first, *second, refused]) == []
    assert contradicted([*first[:2], *second[:2], refused._replace(order=3)]) == [("r3", Difference.WRONGLY_DROPPED)]


def test_a_backlog_is_judged_by_the_times_it_was_observed() -> None:
    handled = 50 * 60_000
    lawful = [compared(n, handled + n, "queued", observed_at=n * 20_000, order=n + 1, counted=True) for n in range(40)]
    assert contradicted(lawful) == []
    assert contradicted([lawful[0]._replace(found="rate_limited"), *lawful[1:]]) == [("r0", Difference.WRONGLY_DROPPED)]


def test_what_was_counted_before_a_crash_counts_although_only_its_retry_was_recorded() -> None:
    """A crash between the count and the event: the retry, recorded after the others, was counted before them."""
    retried = compared(0, 9_000, "queued", observed_at=0, order=4, counted=False)
    rest = [compared(number, number * 1_000, "queued", order=number + 1, counted=True) for number in (1, 2)]
    refused = compared(3, 3_000, "rate_limited", order=4, counted=True)
    assert contradicted(sorted([retried, *rest, refused], key=lambda one: one.at)) == []
    unlawful = [*rest, compared(4, 2_500, "queued", order=3, counted=True)]
    assert contradicted(sorted([retried, *unlawful], key=lambda one: one.at)) == [("r0", Difference.UNEXPECTED)]


def test_what_a_full_subscription_was_not_sent_is_no_fault() -> None:
    assert contradicted([compared(1, 0, "capped", full=True)]) == []
    assert contradicted([compared(1, 0, "capped")]) == [("r1", Difference.WRONGLY_DROPPED)]


def test_what_a_subscription_was_sent_beyond_twice_its_cap_is_unexpected() -> None:
    assert contradicted([compared(1, 0, "queued", overfull=True)]) == [("r1", Difference.UNEXPECTED)]


@given(st.permutations(range(12)), st.lists(st.integers(0, 300_000), min_size=12, max_size=12))
def test_a_history_that_the_limiter_made_contradicts_nothing(order: list[int], observed: list[int]) -> None:
    window, history = Window(), []
    for version, number in enumerate(order, 1):
        after, passed = judge(window, LIMIT, mark_of(number.to_bytes(32)), observed[number])
        found = "queued" if passed else "rate_limited"
        at = HOUR + version
        history.append(
            compared(number, at, found, observed_at=observed[number], order=version, counted=after != window)
        )
        window = after
    assert contradicted(history) == []


@given(st.lists(st.tuples(st.integers(0, 10**6), st.none() | st.integers(0, 50)), max_size=40))
def test_putting_into_order_loses_nothing_and_follows_the_versions(rows: list[tuple[int, int | None]]) -> None:
    history = [compared(number, at, "queued", order=order) for number, (at, order) in enumerate(sorted(rows, key=str))]
    ordered = in_order(sorted(history, key=lambda one: one.at))
    assert sorted(ordered) == sorted(history)
    near = [one.order for one in ordered if one.order is not None and one.at < 60_000]
    assert all(earlier <= later for earlier, later in pairwise(near))


def test_a_refusal_is_right_if_the_lost_ones_that_it_followed_were_counted() -> None:
    lost = [compared(number, number * 1_000, None) for number in range(LIMIT.count)]
    refused = [compared(number, number * 1_000, "rate_limited", counted=True) for number in (8, 9)]
    assert contradicted([*lost, *refused]) == [(one.receipt, Difference.MISSING) for one in lost]
    later = [compared(number, number * HOUR, "queued") for number in (20, 21)]
    few = [*lost[1:], *refused[:1], *later]
    assert ("r8", Difference.WRONGLY_DROPPED) in contradicted(few)


CHANGED = 10 * HOUR
LONGER = Limit(count=3, window=60_000, cooldown=600_000)
CHANGING = [LimitSpan(0, CHANGED, LIMIT, CAP), LimitSpan(CHANGED, FOREVER, LONGER, CAP)]


def in_cooldown(begin: int, after: int, found: str) -> list[Comparison]:
    """Three that pass, one too many, and one more `after` that."""
    times = [begin + number for number in range(4)]
    decided = [
        compared(at, at, "queued" if number < LIMIT.count else "rate_limited", counted=True)
        for number, at in enumerate(times)
    ]
    return [*decided, compared(begin + after, begin + after, found, counted=found == "queued")]


def test_each_is_judged_by_the_limit_of_its_time() -> None:
    limits = PairLimits(CHANGING, grace=15_000)
    before, after = CHANGED - HOUR, CHANGED + HOUR
    assert contradicted(in_cooldown(before, 200_000, "queued"), limits) == []
    assert contradicted(in_cooldown(before, 200_000, "rate_limited"), limits) == [
        (f"r{before + 200_000}", Difference.WRONGLY_DROPPED)
    ]
    assert contradicted(in_cooldown(after, 200_000, "rate_limited"), limits) == []
    assert contradicted(in_cooldown(after, 200_000, "queued"), limits) == [
        (f"r{after + 200_000}", Difference.UNEXPECTED)
    ]


@pytest.mark.parametrize("found", ["queued", "rate_limited"])
def test_next_to_a_change_either_limit_is_right(found: str) -> None:
    begin = CHANGED - 199_999
    history = in_cooldown(begin, 200_000, found)
    assert contradicted(history, PairLimits(CHANGING, grace=200_000)) == []


@given(times)
def test_without_a_limit_all_that_was_queued_is_right(moments: list[int]) -> None:
    limits = PairLimits([LimitSpan(0, FOREVER, None, CAP)])
    history = [compared(number, at, "queued") for number, at in enumerate(moments)]
    assert contradicted(history, limits) == []
    refused = history[0]._replace(found="rate_limited")
    assert contradicted([refused, *history[1:]], limits) == [("r0", Difference.WRONGLY_DROPPED)]


def test_what_was_refused_as_its_own_is_wrongly_dropped_where_it_was_wanted() -> None:
    assert contradicted([compared(1, 0, "own_message")]) == [("r1", Difference.WRONGLY_DROPPED)]
    assert contradicted([compared(1, 0, "own_message", against="own_message")]) == []
    assert contradicted([compared(1, 0, "queued", against="own_message")]) == [("r1", Difference.UNEXPECTED)]


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        (None, Difference.MISSING),
        ("queued", None),
        ("own_message", None),
        ("not_pushable", Difference.WRONGLY_DROPPED),
        ("rate_limited", Difference.WRONGLY_DROPPED),
        ("capped", Difference.WRONGLY_DROPPED),
        ("duplicate", Difference.WRONGLY_DROPPED),
    ],
)
def test_where_a_secret_decides_whatever_it_may_have_said_is_right(found: str | None, difference: str | None) -> None:
    one = compared(1, 0, found, refusals=["own_message"])
    assert contradicted([one]) == ([("r1", difference)] if difference else [])
    assert contradicted([one._replace(sure=False)]) == []


def test_an_own_message_by_two_receipts_is_refused_once() -> None:
    lost = compared(1, 0, None, refusals=["own_message"])
    again = lost._replace(receipt="again", at=9, found="own_message", of_envelope="matched")
    assert contradicted([lost, again]) == []
    assert contradicted([lost._replace(refusals=[]), again]) == [("r1", Difference.MISSING)]
    assert contradicted([lost, again._replace(found=None)]) == [("r1", Difference.MISSING)]
