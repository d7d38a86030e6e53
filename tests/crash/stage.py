"""Sets a scenario up in an emulation of its own: for processes that share the work."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from moto import mock_aws

from tests.crash import (
    dispatching,
    harness,
    hourly,
    ingesting,
    installing,
    late_events,
    matching,
    messaging,
    proving,
    rules,
    scheduling,
)
from tests.crash.harness import Failure, Scenario
from tests.crash.wire import Point
from tests.match.scene import deploy

SCENARIOS = (
    "ingest",
    "rules",
    "many rules",
    *dispatching.SCENARIOS,
    "match",
    "xmtp",
    "installing",
    "hourly",
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


@contextmanager
def staged(name: str) -> Iterator[Scenario]:
    """One of `SCENARIOS`, in a deployment of its own, without the metrics that it prints."""
    with mock_aws(), TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        environment = deploy()
        match name:
            case "rules":
                yield rules.scenario(rules.FEW)
            case "many rules":
                yield rules.scenario(rules.MANY)
            case "ingest":
                with ingesting.scenario(Path(folder)) as scenario:
                    yield scenario
            case _ if name in dispatching.SCENARIOS:
                with dispatching.scenario(name, Path(folder)) as scenario:
                    yield scenario
            case "xmtp":
                yield messaging.scenario(environment)
            case "installing":
                yield installing.scenario()
            case "hourly":
                yield hourly.scenario()
            case "takeover" | "another token":
                yield proving.scenario(replaces=name == "another token")
            case "late events":
                yield late_events.scenario()
            case "scheduling" | "scheduling late":
                yield scheduling.scenario(late=name == "scheduling late")
            case _:
                yield matching.scenario(environment)
