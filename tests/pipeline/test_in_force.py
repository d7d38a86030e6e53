"""Which rules and limits were in force for a few, by their events: as `in_force.rules` says it of all."""

from itertools import permutations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.events import Event, LimitsLoaded
from clarion.limiter import Limit
from clarion.networks import SIMPLEX, STATEMENTS, XMTP, Rule
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged
from pipeline.explain.in_force import limits_at, rule_spans
from pipeline.in_force.limits import LimitSpan, default_span
from pipeline.period import FOREVER
from tests.pipeline.small_lake import PHONE, TABLET, subscribed

KEY, OTHER_KEY = b"key", b"another"
CAP = Limit(300, 60_000, 0)


def became(at: int, revision: int, to: UUID = PHONE, **others: Any) -> SubscriptionChanged:
    return subscribed(to, at=at, revision=revision, **others)


def changed(at: int, revision: int, *rules: Rule, change: str = "added", **others: Any) -> RulesChanged:
    values = {"subscription_id": PHONE, "generation": 1} | others
    refs = tuple(RuleRef.of(rule, secret=False) for rule in rules or (Rule(KEY),))
    return RulesChanged(network=STATEMENTS, at=at, change=change, revision=revision, rules=refs, **values)


def spans(*events: Event) -> list[tuple[bytes, bytes | None, int, int]]:
    """`key, condition, since, until`, in order."""
    rules = [one for one in events if isinstance(one, RulesChanged)]
    subscriptions = [one for one in events if isinstance(one, SubscriptionChanged)]
    found = ((one.rule.key, one.rule.condition, one.since, one.until) for one in rule_spans(rules, subscriptions))
    return sorted(found, key=lambda span: (span[2], span[0]))


def test_a_rule_is_in_force_from_when_both_it_and_its_subscription_are() -> None:
    assert spans(became(10, 1), changed(20, 1)) == [(KEY, None, 20, FOREVER)]
    assert spans(became(30, 1), changed(20, 1)) == [(KEY, None, 30, FOREVER)]


@pytest.mark.parametrize("status", ["pending", "invalid", "expired", "removed"])
def test_it_ends_with_its_subscription_and_begins_with_it_again(status: str) -> None:
    life = [became(10, 1), became(30, 2, status=status), became(50, 3)]
    assert spans(*life, changed(10, 1)) == [(KEY, None, 10, 30), (KEY, None, 50, FOREVER)]


def test_where_newest_items_are_kept_a_rule_is_in_force_while_its_subscription_is_pending_again() -> None:
    life = [became(10, 1), became(30, 2, status="pending"), became(50, 3), became(70, 4, status="invalid")]
    of_simplex = [one.model_copy(update={"network": SIMPLEX}) for one in life]
    assert spans(*of_simplex, changed(10, 1)) == [(KEY, None, 10, 70)]


def test_a_rule_that_is_removed_ends_and_one_that_is_added_again_has_its_new_condition() -> None:
    rules = [changed(10, 1), changed(20, 2, change="removed"), changed(30, 3, Rule(KEY, b"voip"))]
    assert spans(became(1, 1), *rules) == [(KEY, None, 10, 20), (KEY, b"voip", 30, FOREVER)]


def test_a_condition_that_changes_ends_what_was_before() -> None:
    rules = [changed(10, 1), changed(20, 2, Rule(KEY, b"voip"))]
    assert spans(became(1, 1), *rules) == [(KEY, None, 10, 20), (KEY, b"voip", 20, FOREVER)]


def test_events_that_change_nothing_of_a_rule_end_nothing() -> None:
    """A new token, and the same rule in another generation beside a new one."""
    rules = [changed(10, 1), changed(29, 3, Rule(KEY), Rule(OTHER_KEY), generation=2)]
    life = [became(1, 1), became(20, 2), became(30, 3, generation=2), became(40, 4, generation=2)]
    assert spans(*life, *rules) == [(KEY, None, 10, FOREVER), (OTHER_KEY, None, 30, FOREVER)]


def test_a_generation_that_is_replaced_takes_its_rules_along() -> None:
    rules = [changed(10, 1), changed(20, 2, Rule(OTHER_KEY), generation=2)]
    assert spans(became(1, 1), became(30, 3, generation=2), *rules) == [
        (KEY, None, 10, 30), (OTHER_KEY, None, 30, FOREVER),
    ]  # fmt: skip


def test_rules_of_a_generation_that_never_came_are_never_in_force() -> None:
    assert spans(became(1, 1), changed(10, 1, generation=2)) == []


def test_rules_of_another_subscription_are_its_own() -> None:
    assert spans(became(1, 1), changed(10, 1, subscription_id=TABLET)) == []
    both = [became(1, 1), became(5, 1, TABLET), changed(10, 1), changed(20, 1, subscription_id=TABLET)]
    assert spans(*both) == [(KEY, None, 10, FOREVER), (KEY, None, 20, FOREVER)]


def test_a_change_of_many_rules_is_several_lines() -> None:
    rules = [changed(10, 1, Rule(KEY)), changed(10, 1, Rule(OTHER_KEY))]
    assert spans(became(1, 1), *rules) == [(OTHER_KEY, None, 10, FOREVER), (KEY, None, 10, FOREVER)]


def test_a_rule_that_was_in_force_for_no_time_at_all_is_left_out() -> None:
    assert spans(became(1, 1), changed(10, 1), changed(10, 2, change="removed")) == []


LIFE = [became(10, 1), became(30, 2, status="expired"), became(50, 3), changed(15, 1), changed(60, 2, change="removed")]


@given(st.permutations(LIFE), st.lists(st.sampled_from(LIFE), max_size=4))
def test_neither_the_order_of_lines_nor_repeats_change_anything(lines: list[Event], repeated: list[Event]) -> None:
    once = dict.fromkeys([*lines, *repeated])
    assert spans(*once) == [(KEY, None, 15, 30), (KEY, None, 50, 60)]


def test_of_changes_with_one_revision_a_removal_is_the_last() -> None:
    """Their clocks may agree to the millisecond."""
    same = [became(10, 1), became(10, 1, status="removed"), changed(5, 1)]
    for lines in permutations(same):
        assert spans(*lines) == []


@pytest.mark.parametrize(
    ("first", "last", "touches", "covers"),
    [
        (40, 60, True, True),
        (31, 69, True, False),
        (5, 10, False, False),
        (5, 11, True, False),
        (89, 95, True, False),
        (90, 95, False, False),
    ],
)
def test_near_its_ends_a_rule_may_have_been_in_force(first: int, last: int, *, touches: bool, covers: bool) -> None:
    [span] = rule_spans([changed(20, 1), changed(80, 2, change="removed")], [became(1, 1)])
    assert (span.touches(first, last, 10), span.covers(first, last, 15)) == (touches, covers)


def loaded(at: int, count: int | None, name: str = STATEMENTS) -> LimitsLoaded:
    of_pair = {} if count is None else {"count": count, "window": 60_000, "cooldown": 0}
    return LimitsLoaded(network=name, at=at, cap=300, cap_window=60_000, **of_pair)


def counts(*starts: LimitsLoaded, at: int, grace: int = 0) -> list[int | None]:
    return [then.limit.count if then.limit else None for then in limits_at(starts, STATEMENTS, at, grace)]


def test_limits_count_from_one_start_of_a_worker_to_the_next() -> None:
    starts = loaded(100, 30), loaded(200, 40), loaded(300, None)
    assert [counts(*starts, at=at) for at in (100, 199, 200, 299, 300, 9_999)] == [
        [30],
        [30],
        [40],
        [40],
        [None],
        [None],
    ]


def test_what_was_before_the_first_known_start_is_judged_by_that() -> None:
    assert counts(loaded(100, 30), at=1) == [30]
    assert counts(loaded(200, 40), loaded(100, 30), at=1) == [30]


def test_next_to_a_change_either_limit_may_have_been_in_force() -> None:
    starts = loaded(100, 30), loaded(200, 40)
    assert counts(*starts, at=195, grace=10) == [30, 40]
    assert counts(*starts, at=205, grace=10) == [30, 40]
    assert counts(*starts, at=150, grace=10) == [30]
    assert counts(loaded(100, 30), loaded(200, 30), at=195, grace=10) == [30]


@pytest.mark.parametrize("name", [STATEMENTS, XMTP])
def test_a_network_of_which_nothing_is_known_has_its_own_default(name: str) -> None:
    other = XMTP if name == STATEMENTS else STATEMENTS
    assert limits_at([loaded(100, 7, other)], name, 150, 0) == [default_span(name)]


def test_a_part_of_a_limit_is_none() -> None:
    one = loaded(1, 30)
    always = LimitSpan(0, FOREVER, Limit(30, 60_000, 0), CAP)
    assert limits_at([one], STATEMENTS, 1, 0) == [always]
    partly = one.model_copy(update={"window": None})
    assert limits_at([partly], STATEMENTS, 1, 0) == [always._replace(limit=None)]
