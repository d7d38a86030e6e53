"""A sample of the crash points, spread over all calls and endings; `make crash` tries every one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clarion.rulesets import RuleSet
from tests.crash import (
    bouncing,
    conversing,
    device_races,
    dispatching,
    ending,
    harness,
    hourly,
    ingesting,
    installing,
    late_events,
    matching,
    messaging,
    newest_items,
    proving,
    registering,
    rules,
    scheduling,
)
from tests.crash.harness import RETURN, Failure, Scenario
from tests.crash.wire import Ending, Point, Stopped, wire

SAMPLE = 29
"""Every so many points; as it shares no factor with the number of endings, all of them have their turn."""
OF_MANY = 59
"""The same where a scenario is long and has points for each ending several times over."""


@pytest.fixture
def scenario(environment: dict[str, str]) -> Scenario:
    return matching.scenario(environment)


def failures(scenario: Scenario, *, every: int) -> list[Failure]:
    """At every so many points, and wherever all is done but the queue does not know it."""
    called = harness.calls(scenario)
    points = harness.points(called)
    at_the_end = [point for point in points if called[point.number] == RETURN]
    sample = dict.fromkeys([*points[::every], *at_the_end])
    return [failure for point in sample if (failure := harness.survives(scenario, point))]


@pytest.fixture
def ingest(environment: dict[str, str], tmp_path: Path) -> Iterator[Scenario]:
    with ingesting.scenario(tmp_path) as scenario:
        yield scenario


def test_ingest_loses_no_envelope_of_xmtp(ingest: Scenario) -> None:
    assert failures(ingest, every=OF_MANY) == []


def test_what_ingest_was_shown_is_lost_with_both_its_tasks(ingest: Scenario) -> None:
    """So it is the other one that keeps it."""
    sending = harness.calls(ingest).index("sqs SendMessageBatch")
    run = ingest.begin()
    assert isinstance(run, ingesting.Ingesting)
    with wire.watched(Point(sending, Ending.STOPPED_BEFORE)), pytest.raises(Stopped):
        run.deliver()
    run.stop_both()
    harness.finish(run)
    with pytest.raises(AssertionError, match="what was forwarded is not what was wanted"):
        run.check()


def test_match_loses_nothing_and_decides_once(scenario: Scenario) -> None:
    assert failures(scenario, every=SAMPLE) == []


def test_a_message_of_xmtp_wakes_whom_it_should(environment: dict[str, str]) -> None:
    assert failures(messaging.scenario(environment), every=SAMPLE) == []


def test_the_newest_message_of_each_queue_of_simplex_reaches_the_device(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with newest_items.scenario(environment, tmp_path) as scenario:
        assert failures(scenario, every=SAMPLE) == []


def test_an_installation_of_xmtp_is_registered_and_subscribed(environment: dict[str, str]) -> None:
    assert failures(installing.scenario(), every=SAMPLE) == []


def test_a_device_of_zulip_is_registered_pushed_to_and_revived(environment: dict[str, str]) -> None:
    assert failures(bouncing.scenario(), every=SAMPLE) == []


def test_all_holders_of_a_dead_token_end(environment: dict[str, str]) -> None:
    assert failures(ending.scenario(), every=SAMPLE) == []


def test_registrations_at_once_make_one_device_of_zulip(environment: dict[str, str]) -> None:
    assert device_races.run(range(8)) == []


def test_a_wallet_s_requests_are_served_once_each(environment: dict[str, str]) -> None:
    """Subscribe, update, receipt and delete, and a notification between them."""
    assert failures(conversing.scenario(), every=SAMPLE) == []


def test_an_agent_of_simplex_has_what_it_asked_for(environment: dict[str, str]) -> None:
    """Tokens that are registered, verified, replaced, found dead and deleted, and the queues that they subscribe to."""
    assert failures(registering.scenario(), every=SAMPLE) == []


def test_what_is_due_in_an_hour_is_done(environment: dict[str, str]) -> None:
    assert failures(hourly.scenario(), every=SAMPLE) == []


@pytest.mark.parametrize("replaces", [False, True])
def test_a_token_has_one_owner_at_every_moment(environment: dict[str, str], replaces: bool) -> None:
    assert failures(proving.scenario(replaces=replaces), every=SAMPLE) == []


@pytest.mark.parametrize("late", [False, True])
def test_the_schedule_wakes_who_is_due_and_ends_what_is_over(environment: dict[str, str], late: bool) -> None:
    assert failures(scheduling.scenario(late=late), every=SAMPLE) == []


def test_late_events_reach_the_lake(environment: dict[str, str]) -> None:
    assert failures(late_events.scenario(), every=1) == []


@pytest.mark.parametrize("new", [rules.FEW, rules.MANY], ids=["few", "many"])
def test_a_rule_set_is_replaced_as_one(environment: dict[str, str], new: RuleSet) -> None:
    assert failures(rules.scenario(new), every=5) == []


@pytest.mark.parametrize("name", dispatching.SCENARIOS)
def test_dispatch_loses_no_push(environment: dict[str, str], tmp_path: Path, name: str) -> None:
    with dispatching.scenario(name, tmp_path) as scenario:
        assert failures(scenario, every=SAMPLE) == []


def test_the_harness_notices_what_is_lost(scenario: Scenario) -> None:
    """Were messages not to come again, a stopped process would leave its work undone."""
    run = scenario.begin()
    with wire.watched(Point(5, Ending.STOPPED_BEFORE)), pytest.raises(Stopped):
        run.deliver()
    with pytest.raises(AssertionError):
        run.check()
