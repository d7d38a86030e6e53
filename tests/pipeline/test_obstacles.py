"""What may stand in the way of a push, one case at a time: claims, limits of a pair, caps of a subscription."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.decisions import EnvelopeDecision, NotificationDecision, Wanted
from clarion.events import NotificationDecided
from clarion.limiter import LATENESS, Limit
from clarion.networks import STATEMENTS, XMTP, Rule, network
from clarion.subscription_events import RuleRef
from pipeline.explain.cases import Notified, ObservedReceipt, PossibleClaim, RuleAnswers, answers_of, read
from pipeline.explain.in_force import RuleSpan
from pipeline.explain.obstacles import (
    Obstacle,
    claimed,
    clock,
    full,
    in_order,
    over_limit,
    overfull,
    queued_before,
    window_after,
    within_limits,
)
from pipeline.in_force.limits import LimitSpan
from pipeline.period import FOREVER
from pipeline.terms import Terms
from tests.pipeline.small_lake import CLIENT, PHONE, START, Way, subscribed
from tests.xmtp import Inbox

QUEUED, LIMITED = NotificationDecision.QUEUED, NotificationDecision.RATE_LIMITED
PAIR, CAP = Limit(3, 60_000, 120_000), Limit(4, 60_000, 0)
LIMITS = LimitSpan(0, FOREVER, PAIR, CAP)
SECOND = 1_000


def decided(at: int, number: int, decision: NotificationDecision = QUEUED, **others: Any) -> NotificationDecided:
    """Of the statement `number`, judged and decided at a time after START."""
    one = Way(START + at, number).notification(decision)
    return one.model_copy(update={"at": START + at, "judged_at": START + at, **others})


def notified(
    one: NotificationDecided | None = None,
    *,
    earlier: Sequence[NotificationDecided] = (),
    near: Sequence[NotificationDecided] = (),
    claims: Sequence[PossibleClaim] = (),
    limits: Sequence[LimitSpan] = (LIMITS,),
) -> Notified:
    """Without a decision, of the statement 99, observed at START."""
    way = Way(START, 99)
    seen = ObservedReceipt.of(way.observed(), [], way.raw)
    return Notified(
        seen, [RuleSpan(subscribed(), RuleRef(key=way.key), 0, FOREVER)], one, claims, earlier, near, [], limits
    )


def claim(decision: NotificationDecision | None, at: int = 0) -> PossibleClaim:
    return PossibleClaim(b"e", PHONE, UUID(int=at + 1), decision, START + at)


FLOOD = [decided(number * SECOND, number) for number in range(1, 4)]


def test_as_many_as_the_limit_pass_and_one_more_does_not() -> None:
    assert over_limit(notified(decided(5 * SECOND, 9), earlier=FLOOD[:2])) is None
    obstacle = over_limit(notified(decided(5 * SECOND, 9), earlier=FLOOD))
    assert obstacle == Obstacle(LIMITED, "3 of this sender had passed within 60 s, and it was one more.")


def test_after_the_window_it_may_pass_again() -> None:
    assert over_limit(notified(decided(61 * SECOND, 9), earlier=FLOOD)) is None


def test_who_was_refused_is_in_a_cooldown_from_then_on() -> None:
    earlier = [*FLOOD, decided(10 * SECOND, 8, LIMITED)]
    obstacle = over_limit(notified(decided(100 * SECOND, 9), earlier=earlier))
    assert obstacle
    assert obstacle.reason.startswith(f"The pair of sender and client was in a cooldown, {clock(START + 10_000)} to ")
    assert over_limit(notified(decided(130 * SECOND, 9), earlier=earlier)) is None


def test_a_refusal_that_the_limit_does_not_bear_out_starts_no_cooldown() -> None:
    assert over_limit(notified(decided(3 * SECOND, 9), earlier=[decided(SECOND, 8, LIMITED)])) is None


def test_what_was_queued_against_the_limit_counts_for_those_after_it() -> None:
    """The live system counts what it lets pass, rightly or not."""
    window = window_after([*FLOOD, decided(4 * SECOND, 4)], PAIR)
    assert len(window.admitted) == 4


@pytest.mark.parametrize("decision", [each for each in NotificationDecision if each not in {QUEUED, LIMITED}])
def test_what_was_dropped_for_another_reason_counts_for_nothing(decision: NotificationDecision) -> None:
    assert window_after([decided(SECOND, 1, decision)], PAIR) == window_after([], PAIR)


def test_a_network_without_a_limit_or_a_message_without_a_sender_is_never_over_it() -> None:
    free = notified(decided(5 * SECOND, 9), earlier=FLOOD, limits=[LIMITS._replace(limit=None)])
    nobodys = notified(decided(5 * SECOND, 9, sender=None), earlier=FLOOD)
    assert [over_limit(one) for one in (free, nobodys)] == [None, None]
    assert [list(within_limits(one)) for one in (free, nobodys)] == [[], []]


def test_next_to_a_change_of_limits_what_either_bears_out_is_right() -> None:
    either = [LIMITS, LIMITS._replace(limit=replace(PAIR, count=9))]
    assert over_limit(notified(decided(5 * SECOND, 9), earlier=FLOOD, limits=either)) is None
    refused = over_limit(notified(decided(5 * SECOND, 9, LIMITED), earlier=FLOOD, limits=either))
    assert refused
    assert refused.should_be == LIMITED


def test_within_the_limit_the_answer_says_how_near_it_was() -> None:
    near = notified(decided(5 * SECOND, 9), earlier=FLOOD[:2])
    assert list(within_limits(near)) == ["2 others of this sender had passed near it; 3 may within 60 s."]


@given(st.permutations([decided(number * SECOND, number, order=number) for number in range(1, 6)]))
def test_decisions_of_a_pair_are_in_the_order_of_its_windows_versions(lines: list[NotificationDecided]) -> None:
    assert [one.order for one in in_order(lines)] == [1, 2, 3, 4, 5]


def test_a_version_orders_what_the_clocks_do_not() -> None:
    """The second was decided by a worker whose clock is behind."""
    first, second = decided(5 * SECOND, 1, order=1), decided(3 * SECOND, 2, order=2)
    unversioned = decided(4 * SECOND, 3)
    assert in_order([second, unversioned, first]) == [unversioned, first, second]


def test_a_claim_that_was_queued_before_makes_a_duplicate() -> None:
    one = notified(decided(9 * SECOND, 9), claims=[claim(LIMITED), claim(QUEUED, 2 * SECOND)])
    obstacle = queued_before(one)
    assert obstacle
    assert obstacle.should_be == NotificationDecision.DUPLICATE
    assert str(UUID(int=2 * SECOND + 1)) in obstacle.reason
    assert queued_before(notified(decided(SECOND, 9), claims=[claim(QUEUED, 2 * SECOND)])) is None


@pytest.mark.parametrize(
    ("decision", "holds"),
    [
        (QUEUED, True),
        (LIMITED, True),
        (None, True),
        (NotificationDecision.CAPPED, False),
        (NotificationDecision.OWN_MESSAGE, True),
    ],
)
def test_who_holds_a_claim_is_what_may_have_made_one(decision: NotificationDecision | None, *, holds: bool) -> None:
    """Or was refused as the secret may say."""
    obstacle = claimed(notified(claims=[claim(decision)]), [str(NotificationDecision.OWN_MESSAGE)])
    assert (obstacle is not None) == holds


def test_a_claim_of_what_was_lost_is_said_to_be_missing_already() -> None:
    obstacle = claimed(notified(claims=[claim(None)]), [])
    assert obstacle
    assert obstacle.reason.endswith("is missing already.")


def test_a_capped_one_is_right_if_the_cap_was_reached_in_any_window_around_it() -> None:
    before = [decided(number * SECOND, number) for number in range(4)]
    around = [decided(number * 20 * SECOND, number) for number in (1, 2, 4, 5)]
    assert full(notified(decided(4 * SECOND, 9), near=before))
    assert full(notified(decided(60 * SECOND, 9), near=before)) is None
    assert full(notified(decided(59 * SECOND, 9), near=before[1:])) is None
    assert full(notified(decided(60 * SECOND, 9), near=around)) is None
    assert full(notified(decided(60 * SECOND, 9), near=[*around, decided(79 * SECOND, 6), decided(78 * SECOND, 7)]))


def test_up_to_twice_the_cap_workers_may_not_have_known_of_each_other() -> None:
    many = [decided(number * SECOND, number) for number in range(1, 10)]
    assert overfull(notified(many[7], near=many[:8])) is None
    too_many = overfull(notified(many[8], near=many))
    assert too_many
    assert too_many.reason == "Its subscription had been sent more than twice 4 within a window."
    higher = [LIMITS, LIMITS._replace(cap=replace(CAP, count=9))]
    assert overfull(notified(many[8], near=many, limits=higher)) is None


def test_what_was_never_decided_is_judged_by_when_it_was_observed_but_an_hour_late_at_most() -> None:
    assert notified().at == START
    way = Way(START, 99)
    seen = ObservedReceipt.of(way.observed(), [way.envelope().model_copy(update={"at": START + 3 * LATENESS})], way.raw)
    assert replace(notified(), observation=seen).at == START + 2 * LATENESS


def test_an_answer_names_the_subscription_by_its_decision_or_by_its_rule() -> None:
    one = decided(SECOND, 9, subscription_id=UUID(int=9), client_id=b"another")
    assert (notified().subscription_id, notified().client_id) == (PHONE, CLIENT)
    assert (notified(one).subscription_id, notified(one).client_id) == (UUID(int=9), b"another")


@pytest.mark.parametrize("name", [STATEMENTS, XMTP])
def test_bytes_that_are_no_envelope_are_malformed_and_those_that_are_gone_are_nothing(name: str) -> None:
    assert read(name, b"\xff") == (None, EnvelopeDecision.MALFORMED)
    assert read(name, None) == (None, None)


def test_of_what_was_decided_alone_the_id_and_the_sender_are_known() -> None:
    way = Way()
    seen = ObservedReceipt.of(None, [way.envelope()], None)
    assert (seen.envelope_id, seen.sender, seen.has_bytes, seen.expired(FOREVER)) == (
        way.envelope_id,
        way.sender,
        False,
        False,
    )
    assert answers_of(seen, [], Terms()) == RuleAnswers(frozenset(), certain=False)


AT = START // 1000
BO, ALIX = Inbox(b"bo"), Inbox(b"alix")
RAW = BO.message(AT)
MESSAGE = network(XMTP).decode(RAW)


def wished(*rules: tuple[RuleRef, int, int]) -> RuleAnswers:
    observed = Way(START, 1).observed().model_copy(update={"network": XMTP, "raw": RAW})
    seen = ObservedReceipt.of(observed, [], RAW)
    return answers_of(seen, [RuleSpan(subscribed(), ref, since, until) for ref, since, until in rules], Terms())


SECRET = RuleRef.of(ALIX.rule(AT), secret=True)
OPEN = RuleRef.of(Rule(MESSAGE.keys[0]), secret=False)


def test_a_secret_condition_may_say_several_things() -> None:
    asked = wished((SECRET, 0, FOREVER))
    assert asked.certain
    assert asked.may_push
    assert not asked.pushes
    assert set(asked.refusals) == {"own_message"}


def test_a_rule_that_surely_pushes_makes_anothers_secret_irrelevant() -> None:
    assert wished((SECRET, 0, FOREVER), (OPEN, 0, FOREVER)) == RuleAnswers(frozenset([Wanted.ALERT]), certain=True)


def test_a_rule_that_was_in_force_for_a_part_of_the_time_makes_nothing_certain() -> None:
    assert not wished((OPEN, START - 5 * SECOND, FOREVER)).certain
    assert wished((OPEN, START - 60 * SECOND, FOREVER)).certain
    assert wished((OPEN, START + 60 * SECOND, FOREVER)).answers == frozenset()
