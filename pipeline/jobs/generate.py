"""`generate`: make up a day, and print what should be found of it."""

import argparse
import json

from pipeline.generator.day import answers, generate
from pipeline.generator.plan import NETWORK, NO_FAULTS, SOME_OF_EACH, Plan
from pipeline.in_force.states import limit_history
from pipeline.lake.commits import MANIFESTS
from pipeline.lake.event_lake import EventLake
from pipeline.lake.files import folders
from pipeline.lake.raw import RAW
from pipeline.period import HOUR_MS
from pipeline.spark.ending import JobStopped
from pipeline.terminal import ExitCode, log


class DayIsThere(JobStopped):
    """The lake has days, of which some hours would be replaced by those of a day that is made up."""


def run(lake: EventLake, options: argparse.Namespace) -> int:
    plan = _plan(lake, options)
    if any(folders(lake.root, place) for place in (RAW, MANIFESTS)):
        raise DayIsThere(f"{lake.root} has days already, which would be replaced: take another lake")
    generate(lake, plan, compacted=options.compacted)
    log(
        f"{plan.statements:>12,} statements, {plan.rules:,} rules, {plan.messages:,} messages of other networks, {plan.period}"
    )
    planted = answers(lake).groupBy("difference").count().collect()
    print(json.dumps({row["difference"]: row["count"] for row in planted}))
    return ExitCode.DONE


def _plan(lake: EventLake, options: argparse.Namespace) -> Plan:
    return Plan(
        options.period.start,
        statements=options.statements,
        rules=options.rules,
        messages=options.messages,
        hours=(options.period.end - options.period.start) // HOUR_MS,
        earlier=options.earlier,
        delayed=options.delayed,
        seed=options.seed,
        faults=SOME_OF_EACH if options.faults else NO_FAULTS,
        limits=limit_history(lake.view, options.period.start, options.now).at(NETWORK, options.period.start),
    )
