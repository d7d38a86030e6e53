"""`make pipeline-demo`: a day with an outage and other faults; found, repaired through the deployed stack, reported.

First the deployed stack plays the story of `make demo`, and the events of that must show no difference. The day with
faults is made up, and the stack is given its subscriptions and rules. An outage of the stack itself has to be found
while it happens. The pipeline's own command line does the rest. Exit code 0 only if the story was clean, each planted
fault was found, what the outage swallowed was found once, and after the replay nothing of the day is left that another
one could repair: calls, which were too old to be pushed by then, are late. What does not go on at all, as on a machine
that is too busy, ends it with 1 and a line that says why.
"""

import asyncio
import gzip
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from clarion.decisions import SubscriptionStatus
from clarion.tables import RuleRow, Subscription, bind, rule_key
from local.cast import Cast
from local.demo import FAILURES
from local.emulator import ROOT, EmulatedDeployment
from local.lake_copy import Counts, LakeCopy, healthy
from local.outage import lose
from local.story import CHAT, STORY
from local.system import System, running

LAKE = LakeCopy(ROOT / ".build" / "pipeline-lake")
PAGE = ROOT / ".build" / "pipeline-report.html"
STATEMENTS, RULES = 800, 500
SWALLOWED = 5
"""Statements, by the outage."""
WATCH = ("watch", "--once", "--overdue-seconds", "5")
REPAIRABLE = ("missing", "wrongly_dropped")


def main() -> int:
    shutil.rmtree(LAKE.root, ignore_errors=True)
    try:
        return asyncio.run(_play())
    except FAILURES as error:
        print(f"given up: {str(error) or 'nothing came in time'}", file=sys.stderr)
        return 1


async def _play() -> int:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    day = ("--from", (end - timedelta(hours=2)).isoformat(), "--to", end.isoformat())
    whole = ("--from", (end - timedelta(days=4)).isoformat(), "--to", (end + timedelta(days=1)).isoformat())
    # Of XMTP's rules the lake has digests alone, from which the stack can't be given any.
    size = ("--statements", str(STATEMENTS), "--rules", str(RULES), "--messages", "0")
    planted = await LAKE.job("generate", *day, *size, "--faults")
    await LAKE.job("compact", *whole)
    found = await LAKE.job("reconcile", *day)
    # What was before its first batch, `watch` leaves to the daily run.
    early = await LAKE.job(*WATCH)
    async with running("pipeline-demo", _show_step) as system:
        cast = Cast()
        lived = await _live(system, cast)
        await LAKE.compact(*whole)
        amiss = await healthy(LAKE, *lived)
        noticed = await _watch_an_outage(system, cast)
        await asyncio.to_thread(_populate, system.deployment)
        await LAKE.job("replay", *day, variables=_queues(system.deployment))
        await LAKE.job("replay", *day, variables=_queues(system.deployment))
        await LAKE.update(system)
    await LAKE.job("compact", *whole)
    left = await LAKE.job("reconcile", *day)
    await LAKE.job("report", *day, "--page", str(PAGE))
    return _sum_up(amiss, planted, found, left, watched=noticed and not early["losses"])


def _show_step(step: str) -> None:
    print(f"» {step}", file=sys.stderr)


async def _watch_an_outage(system: System, cast: Cast) -> bool:
    """Whether what an outage swallowed is found, each loss once; prints how long it took from the first one on."""
    _show_step(f"an outage swallows {SWALLOWED} statements")
    begun = time.monotonic()
    await lose(system, [cast.alice.statement(CHAT, data=f"lost {number}".encode()) for number in range(SWALLOWED)])
    await LAKE.update(system)
    found = await LAKE.job(*WATCH)
    seconds = time.monotonic() - begun
    again = await LAKE.job(*WATCH)
    print(
        f"an outage swallowed {SWALLOWED}: watch found {found['losses']} within {seconds:.0f} s, {again['losses']} again"
    )
    return (found["losses"], again["losses"]) == (SWALLOWED, 0)


async def _live(system: System, cast: Cast) -> tuple[str, str]:
    """Let the deployed stack live through a healthy period; returns its begin and end."""
    begun = datetime.now(UTC)
    for scene in STORY:
        _show_step(scene.title)
        await scene.play(system, cast)
    await LAKE.update(system)
    return begun.isoformat(), datetime.now(UTC).isoformat()


def _queues(deployment: EmulatedDeployment) -> dict[str, str]:
    return {**deployment.emulator.variables, "CLARION_ENVELOPES_QUEUE_URL": deployment.outputs.queue_url("envelopes")}


def _populate(deployment: EmulatedDeployment) -> None:
    """Write the subscriptions and rules of the lake into the tables."""
    os.environ.update(deployment.emulator.variables)
    bind(deployment.outputs.table_prefix)
    states: dict[str, dict[str, Any]] = {}
    rules: dict[tuple[str, int, str], Mapping[str, str] | None] = {}
    for event in sorted(_events(), key=lambda event: (event.get("revision", 0), event["at"])):
        if event["event"] == "subscription":
            states[event["subscription_id"]] = event
        elif event["event"] == "rules":
            for rule in event["rules"]:
                name = (event["subscription_id"], event["generation"], rule["key"])
                rules[name] = rule if event["change"] == "added" else None
    with Subscription.batch_write() as batch:
        for state in states.values():
            batch.save(_subscription(state))
    with RuleRow.batch_write() as batch:
        for (subscription_id, generation, _), rule in rules.items():
            if rule:
                batch.save(_rule(subscription_id, generation, rule))


def _subscription(state: Mapping[str, Any]) -> Subscription:
    return Subscription(
        state["subscription_id"],
        client_id=bytes.fromhex(state["client_id"]),
        network=state["network"],
        channel=state["channel"],
        token=state["subscription_id"].replace("-", "") * 2,
        status=SubscriptionStatus(state["status"]).value,
        generation=state["generation"],
        revision=state["revision"],
        rule_count=0,
        created_at=state["at"],
        updated_at=state["at"],
    )


def _rule(subscription_id: str, generation: int, rule: Mapping[str, str]) -> RuleRow:
    key, condition = (bytes.fromhex(rule.get(name, "")) for name in ("key", "condition"))
    return RuleRow(subscription_id, rule_key(generation, key), key=key, condition=condition or None)


def _events() -> Iterator[dict[str, Any]]:
    for file in sorted((LAKE.root / "events").rglob("*.gz")):
        with gzip.open(file, "rt") as lines:
            yield from map(json.loads, lines)


def _sum_up(amiss: Counts, planted: Counts, found: Counts, left: Counts, *, watched: bool) -> int:
    print(f"differences in what the deployed stack lived through: {sum(amiss.values())}")
    kinds = sorted({*planted, *found, *left})
    print(f"{'':18}{'planted':>9}{'found':>9}{'left':>9}")
    for kind in kinds:
        print(f"{kind:18}{planted.get(kind, 0):>9}{found.get(kind, 0):>9}{left.get(kind, 0):>9}")
    print(f"the page: {PAGE}")
    repaired = not any(left.get(kind) for kind in REPAIRABLE)
    flawless = not amiss and planted == found and repaired and watched
    print("as expected" if flawless else "NOT as expected")
    return 0 if flawless else 1


if __name__ == "__main__":
    sys.exit(main())
