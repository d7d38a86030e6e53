"""`clarion-pipeline explain …` and `erase …`: the jobs that read and write the lake's files themselves, without Spark."""

import argparse
import json
import re
from collections.abc import Callable, Mapping

from pipeline.erase.lease import AnotherErasure
from pipeline.erase.run import erase
from pipeline.explain.request import ExplainRequest, NotOfClientError, explain
from pipeline.lake.commits import LAKE_ERRORS
from pipeline.lake.files import exists
from pipeline.lake.lookup import Lookup
from pipeline.lake.raw import RAW
from pipeline.terminal import ExitCode, log
from pipeline.terms import terms_of

AS_ARRIVED = ": as they arrived, the other kinds' lines among them"
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def run(options: argparse.Namespace) -> int:
    """Do a job of `JOBS`; the exit code."""
    try:
        if not exists(options.lake):
            log(f"there is no lake at {options.lake}")
            return ExitCode.FINDING
        return JOBS[options.job](options)
    except BrokenPipeError:
        raise
    except AnotherErasure as error:
        log(str(error))
        return ExitCode.NO_ANSWER
    except LAKE_ERRORS as error:
        log(f"the lake can't be read or written: {' '.join(str(error).split())}")
        return ExitCode.NO_ANSWER


def run_explain(options: argparse.Namespace) -> int:
    request = ExplainRequest(
        options.thing, options.period, options.client, options.show, terms_of(options), options.oversize
    )
    try:
        answer = explain(Lookup(options.lake), request)
    except NotOfClientError as error:
        log(str(error))
        return ExitCode.BAD_USAGE
    print(json.dumps(answer.to_json(), indent=2) if options.json else "\n".join(map(printable, answer.lines())))
    if not answer.found:
        return ExitCode.FINDING
    return ExitCode.NOT_SURE if answer.doubts else ExitCode.DONE


def printable(line: str) -> str:
    """Without what steers a terminal: reasons and ids in the lake were written by others."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", line)


def run_erase(options: argparse.Namespace) -> int:
    erased = erase(options.lake, options.client, dry_run=options.dry_run, on_progress=log)
    for kind, count in erased.removed.items():
        log(f"{count:>12,} {kind}{AS_ARRIVED * (kind == RAW)}")
    if erased.is_nothing:
        log("nothing is left: the lake has nothing of this client (mistyped, or erased already)")
    else:
        named = f"{erased.subscriptions:,} subscription{'s' * (erased.subscriptions != 1)}"
        log(f"{'would be ' * options.dry_run}removed, of {named}")
    for each in erased.left:
        log(f"left as it is: {each}")
    print(json.dumps(erased._asdict()))
    return ExitCode.FINDING if erased.left or erased.is_nothing else ExitCode.DONE


JOBS: Mapping[str, Callable[[argparse.Namespace], int]] = {"explain": run_explain, "erase": run_erase}
