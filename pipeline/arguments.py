"""The command line's arguments: `clarion-pipeline JOB --lake URI …`."""

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from clarion.clock import now_ms
from clarion.networks import NETWORKS
from pipeline.erase.traces import CLIENT_BYTES
from pipeline.findings import REPAIRABLE
from pipeline.period import DAY_MS, HOUR_MS, Period
from pipeline.terms import add_options

type Parser = argparse.ArgumentParser

AGAIN, DROP = "again", "drop"
"""What `compact` is to do with lines that could not be read."""
CLOCKS_DIFFER_MS = 60_000
"""Tolerated difference between the clock that set `--now` and ours."""
EXPLAINED_DAYS = 7
DIGITS = 64
"""Of an envelope's id in hex."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The `job`, its `lake`, `period` and `now` (UNIX milliseconds), and what else the job takes.

    `has_explicit_period`: the period was given. `findings`: those for which a strict run ends with 1.
    """
    parser = argparse.ArgumentParser(
        prog="clarion-pipeline",
        description="Explain, repair and report from the lake.",
    )
    parser.set_defaults(start=None, end=None, has_period=False, now=now_ms(), oversize=None)
    jobs = parser.add_subparsers(dest="job", required=True)
    for name, (description, *adders) in _JOBS.items():
        job = jobs.add_parser(name, help=description, description=description)
        for add in adders:
            add(job)
    options = parser.parse_args(arguments)
    if options.now > now_ms() + CLOCKS_DIFFER_MS:
        parser.error("--now must not be in the future: hours would be sealed, and files removed, too early")
    if getattr(options, "dry_run", True) is False and options.now < now_ms() - CLOCKS_DIFFER_MS:
        parser.error("--now of the past needs --dry-run: what has happened since would be left aside")
    if options.job == "erase" and options.span:
        parser.error("erase has neither --from nor --to: it is always all of the lake")
    if options.job == "explain" and not (options.thing or options.client):
        parser.error("explain what? A receipt, a subscription, an envelope, or all of a --client")
    options.findings = []
    options.has_explicit_period = options.start is not None
    until, days = (options.now, EXPLAINED_DAYS) if options.job == "explain" else (options.now - options.now % DAY_MS, 1)
    end = options.end or until
    start = options.start if options.has_explicit_period else end - days * DAY_MS
    if end <= start:
        before = "now" if options.job == "explain" else "today"
        parser.error("--to must be after --from" if options.end else f"without --to, --from must be before {before}")
    if options.job == "generate" and (start % HOUR_MS or end % HOUR_MS):
        parser.error("generate makes up whole hours: --from and --to must be the beginning of one")
    options.period = Period(start, end)
    return options


def _add_lake(job: Parser) -> None:
    job.add_argument("--lake", required=True, help="path or URI, such as s3://bucket/lake")


def _add_oversize(job: Parser) -> None:
    job.add_argument("--oversize", help="path or URI of the bucket with the envelopes too large for a message")


def _add_spark_job(job: Parser) -> None:
    _add_lake(job)
    _add_oversize(job)
    job.add_argument(
        "--now",
        type=instant,
        default=now_ms(),
        help="ignore what arrived after this time; default: now, as whatever touches the live system has it",
    )


def _add_period(job: Parser) -> None:
    job.set_defaults(has_period=True)
    job.add_argument(
        "--from",
        dest="start",
        type=instant,
        help="UTC, such as 2026-11-20T16:00; default: yesterday's start, of `daily` the days that are due",
    )
    job.add_argument("--to", dest="end", type=instant, help="exclusive end; default: yesterday's end")


def _add_strict(found: str) -> Callable[[Parser], None]:
    def add(job: Parser) -> None:
        job.add_argument("--strict", action="store_true", help=f"end with 1 if {found}")

    return add


def _add_provisional(job: Parser) -> None:
    job.add_argument("--provisional", action="store_true", help="judge hours that are not over by what has arrived")


def _add_counter(job: Parser) -> None:
    counting = job.add_mutually_exclusive_group()
    counting.add_argument("--stream", help="Firehose's name: ask CloudWatch how many records it took")
    counting.add_argument(
        "--assume-quiet", action="store_true", help="there is no counter: take an hour without a file for a quiet one"
    )


def _add_unreadable(job: Parser) -> None:
    job.add_argument(
        "--unreadable",
        choices=(AGAIN, DROP),
        help="do nothing but read again the lines of these hours that could not be read, as a later release may; or drop them",
    )


def _add_watch(job: Parser) -> None:
    job.add_argument(
        "--every", type=_positive, default=60, help="seconds from one batch to the next; default: %(default)s"
    )
    job.add_argument("--once", action="store_true", help="one batch, up to now")
    job.add_argument(
        "--overdue-seconds",
        type=int,
        default=180,
        help="judge an envelope this many seconds after it was observed, when all its events should have arrived; default: %(default)s",
    )
    job.add_argument("--stage", help="record the losses in CloudWatch, as this deployment's")


def _add_replay(job: Parser) -> None:
    _add_dry_run(job)
    # Of an hour that is not over, what seems to be lost may be on its way into the lake.
    job.set_defaults(provisional=False)
    job.add_argument("--per-second", type=_pace, default=50, help="messages a second, at most; default: %(default)s")
    job.add_argument("--receipt", type=_uuid, help="only what came of this envelope")
    job.add_argument("--subscription", dest="subscription_id", type=_uuid, help="only for this subscription")
    job.add_argument("--client", type=client_id, help="only for this client: its id, 32 or 64 hex digits")
    job.add_argument("--network", choices=NETWORKS, help="only envelopes of this network")
    job.add_argument(
        "--queues-lost", action="store_true", help="also what dispatch was to try again: its queues are gone"
    )
    job.add_argument("--difference", choices=[str(each) for each in REPAIRABLE], help="only differences of this kind")


def _add_page(job: Parser) -> None:
    job.add_argument("--page", help="where to write the page besides: it always lies beside the tables")
    job.add_argument("--stage", help="the deployment that the page names")


def _add_retire(job: Parser) -> None:
    _add_dry_run(job)
    job.add_argument(
        "--dead-days",
        type=_positive,
        default=30,
        help="remove subscriptions whose token has been dead for this many days, at least 1; default: %(default)s",
    )
    job.add_argument(
        "--idle-days",
        type=_positive,
        default=180,
        help="after so many days with no match, no direct push, no wake-up and no change, of which the lake has each "
        "hour; default: %(default)s",
    )
    job.add_argument("--show", type=int, default=20, help="how many to list by id, oldest first; default: %(default)s")


def _add_explain(job: Parser) -> None:
    job.add_argument(
        "thing",
        metavar="RECEIPT|SUBSCRIPTION|ENVELOPE",
        type=_thing,
        nargs="?",
        help="a UUID, or an envelope's id in hex; without it, all of a client's subscriptions",
    )
    job.add_argument(
        "--from",
        dest="start",
        type=instant,
        help=f"UTC, such as 2026-11-20T16:00; default: {EXPLAINED_DAYS} days before --to",
    )
    job.add_argument("--to", dest="end", type=instant, help="UTC; default: now")
    job.add_argument("--client", type=client_id, help="only this client's part: its id, 32 or 64 hex digits")
    job.add_argument(
        "--show",
        type=int,
        default=20,
        help="how many subscriptions, or envelopes of one, to show; default: %(default)s",
    )
    job.add_argument("--json", action="store_true", help="for machines")


def _add_erase(job: Parser) -> None:
    _add_dry_run(job)
    job.add_argument("client", metavar="CLIENT", type=client_id, help="its id, 32 or 64 hex digits")
    job.add_argument("--from", "--to", dest="span", help=argparse.SUPPRESS)


def _thing(text: str) -> bytes | UUID:
    """Raises `ArgumentTypeError` for what is neither 64 hex digits, with or without 0x, nor a UUID.

    It is not repeated: it may be a push token.
    """
    digits = text.removeprefix("0x")
    try:
        return bytes.fromhex(digits) if len(digits) == DIGITS else UUID(text)
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


def _positive(text: str) -> int:
    """Raises `ArgumentTypeError` for less than one."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one")
    return number


def _pace(text: str) -> float:
    """Raises `ArgumentTypeError` for what never sends anything."""
    pace = float(text)
    if not pace > 0:
        raise argparse.ArgumentTypeError("more than none")
    return pace


def _uuid(text: str) -> UUID:
    """Raises `ArgumentTypeError` for what is none, which is not repeated: it may be a push token."""
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError("is no UUID") from None


def _add_dry_run(job: Parser) -> None:
    job.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")


def _add_generate(job: Parser) -> None:
    job.add_argument("--statements", type=int, default=10_000, help="how many; default: %(default)s")
    job.add_argument("--rules", type=int, default=10_000, help="for statements; default: %(default)s")
    job.add_argument(
        "--messages", type=int, default=2_000, help="of other networks than the statement store; default: %(default)s"
    )
    job.add_argument(
        "--earlier",
        type=int,
        default=0,
        help="further statements, first shown up to a month earlier; default: %(default)s",
    )
    job.add_argument(
        "--delayed",
        type=int,
        default=0,
        help="of 10,000 receipts, how many have outcomes that arrive days later; default: %(default)s",
    )
    job.add_argument("--seed", type=int, default=1, help="another one makes another day; default: %(default)s")
    job.add_argument("--faults", action="store_true", help="plant some faults of each kind")
    job.add_argument("--compacted", action="store_true", help="write Parquet at once, not the stream's files")


_JOBS: dict[str, tuple[str, *tuple[Callable[[Parser], None], ...]]] = {
    "explain": (
        "say of one thing what became of it, what should have, and why",
        *(_add_lake, _add_oversize, _add_explain, partial(add_options, names=("grace", "late"))),
    ),
    "erase": ("remove what the lake has of a client", _add_lake, _add_erase),
    "compact": (
        "turn the stream's small files into Parquet",
        *(
            _add_spark_job,
            _add_period,
            _add_counter,
            _add_unreadable,
            _add_strict("a line can't be read, or a file is damaged"),
        ),
    ),
    "reconcile": (
        "compare what was done with what should have been",
        *(_add_spark_job, _add_period, _add_provisional, add_options),
        _add_strict("something differs, a large envelope was not read, or an hour can't be judged"),
    ),
    "watch": ("find what was lost within minutes, until it is stopped", _add_spark_job, add_options, _add_watch),
    "replay": (
        "send to the live system again what it has lost",
        *(_add_spark_job, _add_period, add_options, _add_replay),
    ),
    "report": (
        "tables and a page about a period",
        *(_add_spark_job, _add_period, _add_provisional, _add_page, _add_strict("an hour can't be judged")),
    ),
    "daily": (
        "compact, reconcile and report, as the schedule has it",
        *(_add_spark_job, _add_period, _add_counter, _add_provisional, add_options, _add_page),
        _add_strict("compact, reconcile or report would, or a day was never judged"),
    ),
    "retire": ("remove subscriptions that are of no use to anybody", _add_spark_job, _add_retire),
    "generate": ("make up a day with known answers", _add_spark_job, _add_period, _add_generate),
}
