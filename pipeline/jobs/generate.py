"""`generate`: make up a day, and print what should be found of it."""

import argparse
import json

from pipeline.generator.day import answers, generate
from pipeline.generator.plan import NETWORK, NO_FAULTS, SOME_OF_EACH, Plan
from pipeline.in_force.states import limit_history
from pipeline.lake.event_lake import EventLake
from pipeline.period import HOUR_MS
from pipeline.terminal import Exit, log


def run(lake: EventLake, wanted: argparse.Namespace) -> int:
    plan = _plan(lake, wanted)
    generate(lake, plan, compacted=wanted.compacted)
    log(f"{plan.statements:>12,} statements, {plan.rules:,} rules, {plan.messages:,} messages of XMTP, {plan.period}")
    planted = answers(lake).groupBy("difference").count().collect()
    print(json.dumps({row["difference"]: row["count"] for row in planted}))
    return Exit.DONE


def _plan(lake: EventLake, wanted: argparse.Namespace) -> Plan:
    return Plan(
        wanted.period.start,
        statements=wanted.statements,
        rules=wanted.rules,
        messages=wanted.messages,
        hours=(wanted.period.end - wanted.period.start) // HOUR_MS,
        earlier=wanted.earlier,
        delayed=wanted.delayed,
        seed=wanted.seed,
        faults=SOME_OF_EACH if wanted.faults else NO_FAULTS,
        limits=limit_history(lake.view, wanted.period.start, wanted.now).at(NETWORK, wanted.period.start),
    )
