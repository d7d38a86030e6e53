"""`make pipeline-demo`: a day with an outage and other faults; found, repaired through the deployed stack, reported.

First the deployed stack plays the story of `make demo`, and what its rooms told the lake must show no difference. The
day with faults is made up, and the stack is given its subscriptions and rules. The pipeline's own command line does
the rest. Exit code 0 only if the story was clean, each planted fault was found, and none is left after the replay.
"""

import asyncio
import gzip
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from clarion.decisions import SubscriptionStatus
from clarion.tables import Rule, Subscription, bind, rule_key
from local.emulator import ROOT, Deployment
from local.story import STORY, Cast
from local.system import System, running

LAKE = ROOT / ".build" / "pipeline-lake"
PAGE = ROOT / ".build" / "pipeline-report.html"
PIPELINE = ROOT / ".venv-pipeline" / "bin" / "clarion-pipeline"
STATEMENTS, RULES = 800, 500
REPAIRABLE = ("missing", "wrongly_dropped")
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java for programs that end before optimising them would pay."""
QUIET_S, LONGEST_S = 20, 300
"""The live system is done once its lake has grown no more for so long."""

type Counts = dict[str, int]


def main() -> int:
    shutil.rmtree(LAKE, ignore_errors=True)
    return asyncio.run(_play())


async def _play() -> int:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    day = ("--from", (end - timedelta(hours=2)).isoformat(), "--to", end.isoformat())
    whole = ("--from", (end - timedelta(days=4)).isoformat(), "--to", (end + timedelta(days=1)).isoformat())
    size = ("--statements", str(STATEMENTS), "--rules", str(RULES))
    planted = await _job("generate", *day, *size, "--faults")
    await _job("compact", *whole)
    found = await _job("reconcile", *day)
    async with running("pipeline-demo", _tell) as system:
        lived = await _live(system)
        await asyncio.to_thread(_copy_lake, system)
        await _job("compact", *whole)
        # Nothing lags in the emulator, so each statement is judged, however soon after its rules; but it may be slow.
        amiss = await _job("reconcile", *lived, "--grace-seconds", "0", "--late-seconds", "300")
        await asyncio.to_thread(_populate, system.deployment)
        await _job("replay", *day, variables=_queues(system.deployment))
        await _job("replay", *day, variables=_queues(system.deployment))
        await _until_quiet(system)
        await asyncio.to_thread(_copy_lake, system)
    await _job("compact", *whole)
    left = await _job("reconcile", *day)
    await _job("report", *day, "--page", str(PAGE))
    return _sum_up(amiss, planted, found, left)


def _tell(step: str) -> None:
    print(f"» {step}", file=sys.stderr)


async def _live(system: System) -> tuple[str, ...]:
    """Let the real rooms live through a healthy period; returns it as the command line takes it."""
    begun, cast = datetime.now(UTC), Cast()
    for scene in STORY:
        _tell(scene.title)
        await scene.play(system, cast)
    await _until_quiet(system)
    return "--from", begun.isoformat(), "--to", datetime.now(UTC).isoformat()


async def _job(name: str, *words: str, variables: Mapping[str, str] | None = None) -> Counts:
    """Run one job and return what it told as JSON."""
    command = [str(PIPELINE), name, "--lake", str(LAKE), *words]
    environment = {**os.environ, "JDK_JAVA_OPTIONS": _SHORT_LIVED, **(variables or {})}
    run = await asyncio.to_thread(subprocess.run, command, check=True, env=environment, stdout=subprocess.PIPE)
    told: Counts = json.loads(run.stdout) if run.stdout else {}
    return told


def _queues(deployment: Deployment) -> dict[str, str]:
    outputs = deployment.outputs
    names = ("statements_queue_url", "apns_queue_url", "voip_queue_url", "fcm_queue_url")
    return {**deployment.emulator.variables, **{f"CLARION_{name.upper()}": getattr(outputs, name) for name in names}}


def _populate(deployment: Deployment) -> None:
    """Give the tables what the lake was told of subscriptions and rules."""
    os.environ.update(deployment.emulator.variables)
    bind(deployment.outputs.table_prefix)
    states: dict[str, dict[str, Any]] = {}
    rules: dict[tuple[str, int, str, str], bool] = {}
    for event in sorted(_events(), key=lambda event: (event.get("revision", 0), event["at"])):
        if event["event"] == "subscription":
            states[event["subscription_id"]] = event
        elif event["event"] == "rules":
            for rule in event["rules"]:
                key = (event["subscription_id"], event["generation"], rule["sender_pubkey"], rule["topic"])
                rules[key] = event["change"] == "added"
    with Subscription.batch_write() as batch:
        for state in states.values():
            batch.save(_subscription(state))
    with Rule.batch_write() as batch:
        for (subscription_id, generation, sender, topic), there in rules.items():
            if there:
                batch.save(_rule(subscription_id, generation, bytes.fromhex(sender), bytes.fromhex(topic)))


def _subscription(state: Mapping[str, Any]) -> Subscription:
    return Subscription(
        state["subscription_id"],
        client_id=bytes.fromhex(state["client_id"]),
        notify_type=state["notify_type"],
        token=state["subscription_id"].replace("-", "") * 2,
        status=SubscriptionStatus(state["status"]).value,
        generation=state["generation"],
        revision=state["revision"],
        rule_count=0,
        created_at=state["at"],
        updated_at=state["at"],
    )


def _rule(subscription_id: str, generation: int, sender: bytes, topic: bytes) -> Rule:
    return Rule(subscription_id, rule_key(generation, sender, topic), sender_topic=sender + topic)


def _events() -> Iterator[dict[str, Any]]:
    for file in sorted((LAKE / "events").rglob("*.gz")):
        with gzip.open(file, "rt") as lines:
            yield from map(json.loads, lines)


async def _until_quiet(system: System) -> None:
    known, since = -1, time.monotonic()
    async for events in system.lake.growing(LONGEST_S):
        if len(events) != known:
            known, since = len(events), time.monotonic()
        elif time.monotonic() - since > QUIET_S:
            return


def _copy_lake(system: System) -> None:
    """Bring what the live system has written since to the lake on this machine; the emulator's stream doesn't zip."""
    emulator, bucket = system.deployment.emulator, system.deployment.outputs.lake_bucket
    s3 = emulator.session.client("s3", endpoint_url=emulator.endpoint)
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="events/"):
        for found in page.get("Contents", []):
            content = s3.get_object(Bucket=bucket, Key=found["Key"])["Body"].read()
            target = LAKE / found["Key"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


def _sum_up(amiss: Counts, planted: Counts, found: Counts, left: Counts) -> int:
    print(f"differences in what the deployed stack lived through: {sum(amiss.values())}")
    kinds = sorted({*planted, *found, *left})
    print(f"{'':18}{'planted':>9}{'found':>9}{'left':>9}")
    for kind in kinds:
        print(f"{kind:18}{planted.get(kind, 0):>9}{found.get(kind, 0):>9}{left.get(kind, 0):>9}")
    print(f"the page: {PAGE}")
    repaired = not any(left.get(kind) for kind in REPAIRABLE)
    flawless = not amiss and planted == found and repaired
    print("as expected" if flawless else "NOT as expected")
    return 0 if flawless else 1


if __name__ == "__main__":
    sys.exit(main())
