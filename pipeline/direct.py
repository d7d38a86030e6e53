"""`clarion-pipeline explain …` and `erase …`: the jobs that read and write the lake's files themselves, without Spark."""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from clarion.clock import now_ms
from pipeline.erase.run import erase
from pipeline.erase.traces import CLIENT_BYTES
from pipeline.explain.request import ExplainRequest, NotOfClientError, explain, parse_asked
from pipeline.lake.commits import LAKE_ERRORS
from pipeline.lake.files import exists
from pipeline.lake.lookup import Lookup
from pipeline.lake.raw import RAW
from pipeline.period import DAY_MS, Period
from pipeline.terminal import Exit, log
from pipeline.terms import add_options, terms_of

WITHOUT_SPARK = {
    "explain": "say of one thing what became of it, what should have, and why",
    "erase": "remove what the lake has of a client",
}
BACK_DAYS = 7
AS_ARRIVED = ": as they arrived, the other kinds' lines among them"
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def main(words: Sequence[str]) -> int:
    """The exit code."""
    parser = _parser()
    wanted = parser.parse_args(words)
    if wanted.job == "explain" and not (wanted.asked or wanted.client):
        parser.error("explain what? A receipt, a subscription, an envelope, or all of a --client")
    if wanted.job == "explain":
        until = wanted.end or now_ms()
        if wanted.start is not None and until <= wanted.start:
            parser.error("--to must be after --from" if wanted.end else "--from is in the future")
        wanted.end = until
    try:
        if not exists(wanted.lake):
            log(f"there is no lake at {wanted.lake}")
            return Exit.FINDING
        return JOBS[wanted.job](wanted)
    except BrokenPipeError:
        raise
    except LAKE_ERRORS as error:
        log(f"the lake can't be read or written: {' '.join(str(error).split())}")
        return Exit.NO_ANSWER


def run_explain(wanted: argparse.Namespace) -> int:
    period = Period(wanted.start if wanted.start is not None else wanted.end - BACK_DAYS * DAY_MS, wanted.end)
    request = ExplainRequest(wanted.asked, period, wanted.client, wanted.show, terms_of(wanted), wanted.oversize)
    try:
        answer = explain(Lookup(wanted.lake), request)
    except NotOfClientError as error:
        log(str(error))
        return Exit.BAD_USAGE
    print(json.dumps(answer.to_json(), indent=2) if wanted.json else "\n".join(map(printable, answer.lines())))
    if not answer.found:
        return Exit.FINDING
    return Exit.NOT_SURE if answer.doubts else Exit.DONE


def printable(line: str) -> str:
    """Without what steers a terminal: reasons and ids in the lake were written by others."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", line)


def run_erase(wanted: argparse.Namespace) -> int:
    erased = erase(wanted.lake, wanted.client, dry_run=wanted.dry_run, report=log)
    for kind, count in erased.removed.items():
        log(f"{count:>12,} {kind}{AS_ARRIVED * (kind == RAW)}")
    if erased.is_nothing:
        log("nothing is left: the lake has nothing of this client (mistyped, or erased already)")
    else:
        named = f"{erased.subscriptions:,} subscription{'s' * (erased.subscriptions != 1)}"
        log(f"{'would be ' * wanted.dry_run}removed, of {named}")
    for each in erased.left:
        log(f"left as it is: {each}")
    print(json.dumps(erased._asdict()))
    return Exit.FINDING if erased.left or erased.is_nothing else Exit.DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="clarion-pipeline")
    jobs = parser.add_subparsers(dest="job", required=True)
    explaining = jobs.add_parser("explain", help=WITHOUT_SPARK["explain"])
    explaining.add_argument(
        "asked",
        metavar="RECEIPT|SUBSCRIPTION|ENVELOPE",
        type=_asked,
        nargs="?",
        help="a UUID, or an envelope's id in hex; without it, all of a client's subscriptions",
    )
    explaining.add_argument("--lake", required=True, help="path or URI, such as s3://bucket/lake")
    explaining.add_argument(
        "--from",
        dest="start",
        type=instant,
        help=f"UTC, such as 2026-11-20T16:00; default: {BACK_DAYS} days before --to",
    )
    explaining.add_argument("--to", dest="end", type=instant, help="UTC; default: now")
    explaining.add_argument("--client", type=client_id, help="only this client's part: its id, 32 or 64 hex digits")
    explaining.add_argument(
        "--show",
        type=int,
        default=20,
        help="how many subscriptions, or envelopes of one, to show; default: %(default)s",
    )
    explaining.add_argument("--oversize", help="path or URI of the bucket with the envelopes too large for a message")
    add_options(explaining, "grace", "late")
    explaining.add_argument("--json", action="store_true", help="for machines")
    erasing = jobs.add_parser("erase", help=WITHOUT_SPARK["erase"])
    erasing.add_argument("client", metavar="CLIENT", type=client_id, help="its id, 32 or 64 hex digits")
    erasing.add_argument("--lake", required=True, help="path or URI, such as s3://bucket/lake")
    erasing.add_argument("--dry-run", action="store_true", help="say what would be removed, and write nothing")
    return parser


def _asked(text: str) -> bytes | UUID:
    """What is wrong is not repeated: it may be a push token."""
    try:
        return parse_asked(text)
    except ValueError:
        raise argparse.ArgumentTypeError("is neither a UUID nor 64 hex digits") from None


def client_id(text: str) -> bytes:
    """Raises `ArgumentTypeError` for what is none; it is not repeated either."""
    try:
        client = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        client = b""
    if len(client) not in CLIENT_BYTES:
        raise argparse.ArgumentTypeError("is no client's id: 32 or 64 hex digits")
    return client


def instant(text: str) -> int:
    """UNIX milliseconds of an ISO 8601 time; UTC unless it says otherwise. Raises `ArgumentTypeError` for what is none."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 2026-11-20 or 2026-11-20T16:00") from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


JOBS: Mapping[str, Callable[[argparse.Namespace], int]] = {"explain": run_explain, "erase": run_erase}
