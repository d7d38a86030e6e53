"""Sets a scenario up in an emulation of its own: for processes that share the work."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from moto import mock_aws

from tests import moto_transactions
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
from tests.crash.harness import Failure, Scenario
from tests.crash.wire import Point
from tests.match.scene import deploy

moto_transactions.install()

SCENARIOS = (
    "ingest",
    "rules",
    "many rules",
    *dispatching.SCENARIOS,
    "match",
    "xmtp",
    "newest items",
    "installing",
    "hourly",
    "bouncing",
    "ending",
    "conversing",
    "registering",
    "scheduling",
    "scheduling late",
    "takeover",
    "another token",
    "late events",
)


def calls(name: str) -> list[str]:
    with staged(name) as scenario:
        return harness.calls(scenario)


def failed(name: str, points: Sequence[Point]) -> list[Failure]:
    with staged(name) as scenario:
        return [failure for point in points if (failure := harness.survives(scenario, point))]


def raced(seeds: Sequence[int]) -> list[str]:
    """What went wrong in these races for a device."""
    with mock_aws(), redirect_stdout(StringIO()):
        deploy()
        return device_races.run(seeds)


@contextmanager
def staged(name: str) -> Iterator[Scenario]:
    """One of `SCENARIOS`, in a deployment of its own, without the metrics that it prints."""
    with mock_aws(), TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        environment = deploy()
        with _over_tls(name, Path(folder), environment) or nullcontext(_in_process(name, environment)) as scenario:
            yield scenario


def _over_tls(name: str, folder: Path, environment: dict[str, str]) -> AbstractContextManager[Scenario] | None:
    """A scenario with nodes or providers that listen; None if it is none of them."""
    if name == "ingest":
        return ingesting.scenario(folder)
    if name == "newest items":
        return newest_items.scenario(environment, folder)
    return dispatching.scenario(name, folder) if name in dispatching.SCENARIOS else None


def _in_process(name: str, environment: dict[str, str]) -> Scenario:
    """One of match's unless it is another component's."""
    scenarios: dict[str, Callable[[], Scenario]] = {
        "rules": lambda: rules.scenario(rules.FEW),
        "many rules": lambda: rules.scenario(rules.MANY),
        "xmtp": lambda: messaging.scenario(environment),
        "installing": installing.scenario,
        "hourly": hourly.scenario,
        "bouncing": bouncing.scenario,
        "ending": ending.scenario,
        "conversing": conversing.scenario,
        "registering": registering.scenario,
        "takeover": lambda: proving.scenario(replaces=False),
        "another token": lambda: proving.scenario(replaces=True),
        "late events": late_events.scenario,
        "scheduling": lambda: scheduling.scenario(late=False),
        "scheduling late": lambda: scheduling.scenario(late=True),
    }
    return scenarios.get(name, lambda: matching.scenario(environment))()
