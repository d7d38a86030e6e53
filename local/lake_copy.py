"""The emulator's lake on this machine: a copy of what its stream wrote, and the pipeline's own command line over it."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from local.emulator import ROOT
from local.system import System

PIPELINE = ROOT / ".venv-pipeline" / "bin" / "clarion-pipeline"
QUIET_S, STUCK_S = 10, 300
"""The live system is idle once no queue holds a message and the lake has grown no more for so long.

It is stuck if a queue does, and neither has changed.
"""
POLL_S = 1
NEVER_EMPTY = ("-dead", "-held", "cleanup", "simplex-commands")
"""The last one keeps what is ordered for a quarter of an hour after a token was replaced."""
"""Endings of the queues that may hold a message: dead letters, those held for an app, and those without events."""
_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
    "-Dspark.sql.adaptive.enabled=false",
)
"""Java, and Spark in it, for programs that end before optimising them would pay."""

_WITH_CLOCK = """
from pipeline import __main__, arguments
now_ms = arguments.now_ms
arguments.now_ms = lambda: now_ms() + {ahead}
raise SystemExit(__main__.main())
"""
"""The command line, on another day."""

type Counts = dict[str, int]


@dataclass(frozen=True)
class LakeCopy:
    root: Path

    async def job(
        self, name: str, *words: str, variables: Mapping[str, str] | None = None, later: timedelta = timedelta(0)
    ) -> Counts:
        """Run one job, with its clock so much `later`, and return what it printed as JSON, without the period."""
        python, program = (
            str(PIPELINE.with_name("python")),
            _WITH_CLOCK.format(ahead=later // timedelta(milliseconds=1)),
        )
        command = [*([python, "-c", program] if later else [str(PIPELINE)]), name, "--lake", str(self.root), *words]
        environment = {**os.environ, "JDK_JAVA_OPTIONS": " ".join(_SHORT_LIVED), **(variables or {})}
        run = await asyncio.to_thread(subprocess.run, command, check=True, env=environment, stdout=subprocess.PIPE)
        printed = json.loads(run.stdout) if run.stdout else {}
        return {name: count for name, count in printed.items() if name not in {"from", "to"}}

    async def compact(self, *period: str, later: timedelta = timedelta(0)) -> None:
        """The emulator counts no records: nothing came in the hour before the stack was made."""
        await self.job("compact", *period, "--assume-quiet", later=later)

    async def update(self, system: System) -> None:
        """Copy what the live system has written, once it is idle."""
        await until_idle(system)
        await asyncio.to_thread(self._copy, system)

    def _copy(self, system: System) -> None:
        bucket, s3 = system.deployment.outputs.lake_bucket, system.client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="events/"):
            for found in page.get("Contents", []):
                target = self.root / found["Key"]
                if not target.exists():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read())


async def healthy(lake: LakeCopy, begun: str, ended: str) -> Counts:
    """What differences `reconcile` finds in what the deployed stack did: none, if it is right.

    Nothing lags in the emulator, so each statement is judged, however soon after its rules; but it may be slow. What
    can't be judged, for its rule's condition is secret, is no difference.
    """
    period = ("--from", begun, "--to", ended)
    found = await lake.job("reconcile", "--provisional", *period, "--grace-seconds", "0", "--late-seconds", "300")
    return {name: count for name, count in found.items() if name != "unjudged"}


async def until_idle(system: System) -> None:
    """However long it takes, while it goes on. Raises `TimeoutError` if it is stuck."""
    known, since = None, time.monotonic()
    while True:
        in_flight = await asyncio.to_thread(_in_flight, system)
        files = await asyncio.to_thread(system.lake.files)
        if (in_flight, files) != known:
            known, since = (in_flight, files), time.monotonic()
        unchanged = time.monotonic() - since
        if unchanged > QUIET_S and not in_flight:
            return
        if unchanged > STUCK_S:
            raise TimeoutError(f"for {STUCK_S} s nothing has moved, with these messages in flight: {in_flight}")
        await asyncio.sleep(POLL_S)


def _in_flight(system: System) -> dict[str, int]:
    return {queue: count for queue, count in system.messages().items() if not queue.endswith(NEVER_EMPTY)}
