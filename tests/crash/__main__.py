"""Every scenario, at every point, in every way: `make crash`. Ends with the count; fails if one did not come right."""

import os
import sys
import time
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from moto import mock_aws

from tests.crash import dispatching, harness, matching, rules
from tests.crash.harness import Failure, Scenario
from tests.match.scene import credentials, deploy


def main() -> None:
    os.environ |= credentials() | {"POWERTOOLS_LOG_LEVEL": "CRITICAL"}
    with mock_aws(), TemporaryDirectory() as folder:
        environment = deploy()
        with dispatching.scenario(Path(folder)) as dispatch:
            tried, failures = run([rules.scenario(), dispatch, matching.scenario(environment)])
    print(f"{tried} crash points, {len(failures)} failures")
    sys.exit(bool(failures))


def run(scenarios: list[Scenario]) -> tuple[int, list[Failure]]:
    tried, failures = 0, []
    for scenario in scenarios:
        with redirect_stdout(StringIO()):
            called = harness.calls(scenario)
        points = harness.points(called)
        print(f"{scenario.name}: {len(called)} calls: {_told(called)}")
        started = time.monotonic()
        for point in points:
            with redirect_stdout(StringIO()):  # where the metrics go
                failure = harness.survives(scenario, point)
            tried += 1
            if failure:
                failures.append(failure)
                print(f"  {failure}")
        print(f"  {len(points)} crash points in {time.monotonic() - started:.0f} s")
    return tried, failures


def _told(called: list[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(called).most_common())


if __name__ == "__main__":
    main()
