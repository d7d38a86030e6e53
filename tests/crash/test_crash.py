"""A sample of the crash points, spread over all calls and endings; `make crash` tries every one."""

import pytest

from tests.crash import harness, matching
from tests.crash.harness import Scenario
from tests.crash.wire import Ending, Point, Stopped, wire

SAMPLE = 29
"""Every so many points; as it shares no factor with the number of endings, all of them have their turn."""


@pytest.fixture(scope="module")
def scenario(environment: dict[str, str]) -> Scenario:
    return matching.scenario(environment)


def test_whatever_goes_wrong_all_comes_right(scenario: Scenario) -> None:
    points = harness.points(harness.calls(scenario))
    assert len(points) > 250
    failures = [failure for point in points[::SAMPLE] if (failure := harness.survives(scenario, point))]
    assert failures == []


def test_the_harness_notices_what_is_lost(scenario: Scenario) -> None:
    """Were messages not to come again, a stopped process would leave its work undone."""
    run = scenario.begin()
    with wire.watched(Point(5, Ending.STOPPED_BEFORE)), pytest.raises(Stopped):
        run.deliver()
    with pytest.raises(AssertionError):
        run.check()
