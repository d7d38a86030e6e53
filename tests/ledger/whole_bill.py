"""Everything that AWS bills for a delivered push, from ingest's sending to the provider, at three paces.

The units, requests and bytes are counted on the real code, whatever else the machine does. The processor's time is
measured, and so differs from run to run: nothing is compared with it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from math import ceil
from statistics import median
from typing import NamedTuple

from bench.figures import Figure
from infra.environments import PROD
from pipeline.prices import (
    FIREHOSE_BYTE,
    FIREHOSE_RECORD_BYTES,
    GIGABYTE_SECOND,
    INVOCATION,
    LOG_BYTE,
    METRIC_MONTH,
    READ_UNIT,
    S3_GET,
    S3_PUT,
    SENT_BYTE,
    SQS_REQUEST,
    TRACE,
    WRITE_UNIT,
)
from tests.ledger.end_to_end import EndToEnd, Usage, deployed_stages
from tests.match.scene import Sender

MONTH = 730 * 3600
"""Seconds."""
PROCESSOR_MB = 1769
"""With so much memory, a function has one whole processor, and with less as much less."""
SIZES = (512, 1024, 1769)
FUNCTIONS = 2
ROUNDS = 20
FILE = S3_PUT + 3 * SQS_REQUEST + INVOCATION + S3_GET + S3_PUT
"""A file of the lake: written, announced by a message, read by the function `deliveries`, its index written."""
PLATFORM_LINES = (
    (
        '{"time":"2026-11-22T12:00:00.000Z","type":"platform.start",'
        '"record":{"requestId":"00000000-0000-0000-0000-000000000000","version":"$LATEST"}}\n'
    ),
    (
        '{"time":"2026-11-22T12:00:00.000Z","type":"platform.report",'
        '"record":{"requestId":"00000000-0000-0000-0000-000000000000","metrics":{"durationMs":100.00,'
        '"billedDurationMs":100,"memorySizeMB":1024,"maxMemoryUsedMB":100},"status":"success"}}\n'
    ),
)
"""What Lambda itself logs of each invocation, if it is to: of this form."""


class Pace(NamedTuple):
    """One batch a second, of so many pushes, for as many pairs of a sender and a phone."""

    name: str
    pushes: int
    pairs: int

    def senders(self, stages: EndToEnd) -> list[Sender]:
        return stages.new_pairs(self.pairs) * (self.pushes // self.pairs)


PACES = (Pace("alone", 1, 1), Pace("in tens", 10, 10), Pace("ten of one pair", 10, 1))


class Amounts(NamedTuple):
    """For one push. Times are in milliseconds, `files` and `metrics` in parts of a file and of a metric's month."""

    reads: float
    writes: float
    requests: float
    firehose: float
    files: float
    invocations: float
    match_waiting: float
    match_processor: float
    dispatch_waiting: float
    dispatch_processor: float
    logged: float
    metrics: float
    traces: float
    sent: float


LABELS = {
    "reads": "DynamoDB, read units",
    "writes": "DynamoDB, write units",
    "requests": "SQS, requests",
    "firehose": "Firehose, bytes billed",
    "files": "S3, files",
    "invocations": "Lambda, invocations",
    "match_waiting": "match waits, ms",
    "match_processor": "match computes, ms",
    "dispatch_waiting": "dispatch waits, ms",
    "dispatch_processor": "dispatch computes, ms",
    "logged": "logs, bytes",
    "metrics": "metrics, months",
    "traces": "traces",
    "sent": "sent to the provider, bytes",
}
"""What each amount is called on the page."""
MEASURED_TIMES = {"match_processor", "dispatch_processor"}


def amounts(pace: Pace, usage: Usage) -> Amounts:
    bill, count = usage.bill, pace.pushes
    logged = len(usage.log.encode()) + FUNCTIONS * _platform_bytes()
    return Amounts(
        reads=bill.reads / count,
        writes=bill.writes / count,
        requests=(bill.sent + bill.received) / count,
        firehose=bill.streamed / count,
        files=1 / (PROD.lake_buffer_s * count),
        invocations=FUNCTIONS / count,
        match_waiting=usage.match.waiting / count,
        match_processor=usage.match.processor / count,
        dispatch_waiting=usage.dispatch.waiting / count,
        dispatch_processor=usage.dispatch.processor / count,
        logged=logged / count,
        metrics=len(recorded_metrics(usage.log)) / (MONTH * count),
        # X-Ray takes the first request of each second, and at these paces there is no second one.
        traces=FUNCTIONS / count if PROD.tracing else 0,
        sent=usage.sent / count,
    )


def dollars(pace: Pace, of: Amounts) -> dict[str, float]:
    """By service, for a million pushes."""
    dispatch_mb = PROD.dispatch.size.memory_mb
    return {
        "DynamoDB": of.reads * READ_UNIT + of.writes * WRITE_UNIT,
        "SQS": of.requests * SQS_REQUEST,
        "Firehose": of.firehose * FIREHOSE_BYTE,
        "S3": of.files * FILE,
        "Lambda, invocations": of.invocations * INVOCATION,
        "Lambda, match's time": match_time(pace, of),
        "Lambda, dispatch's time": lambda_time(of.dispatch_waiting, of.dispatch_processor, pace.pushes, dispatch_mb),
        "logs": of.logged * LOG_BYTE,
        "metrics": of.metrics * METRIC_MONTH,
        "traces": of.traces * TRACE,
        "transfer to the provider": of.sent * SENT_BYTE,
    }


def measure(stages: EndToEnd, pace: Pace, rounds: int = ROUNDS) -> Amounts:
    """The most of each count, the least of each time, since other work only delays, and the usual size of a request.

    A round before opens the connections.
    """
    stages.deliver(pace.senders(stages))
    found = [amounts(pace, stages.deliver(pace.senders(stages))) for _ in range(rounds)]
    chosen: dict[str, Callable[[Iterable[float]], float]] = {"sent": median, **dict.fromkeys(MEASURED_TIMES, min)}
    return Amounts(*(chosen.get(name, max)(getattr(one, name) for one in found) for name in Amounts._fields))


def measure_all() -> dict[str, Amounts]:
    with deployed_stages() as stages:
        return {pace.name: measure(stages, pace) for pace in PACES}


def naive(of: Amounts, alone: Amounts) -> Amounts:
    """The naive design's at the pace of `of`: docs/cost.md, "Beside the naive design".

    Three records for match's events, not one; what the page doesn't say is as with ours. Pushes share nothing but the
    file of a minute and the metrics of a month.
    """
    firehose = alone.firehose + 2 * FIREHOSE_RECORD_BYTES
    return alone._replace(reads=4.5, writes=5, firehose=firehose, files=of.files, metrics=of.metrics)


def figures() -> list[Figure]:
    return beside_naive(measure_all())


def beside_naive(measured: Mapping[str, Amounts]) -> list[Figure]:
    """A million pushes at each pace."""
    alone, first = PACES[0], measured[PACES[0].name]
    return [
        Figure.beside(
            f"bill of a million pushes, {pace.name}, beside the naive design's",
            all_in(pace, measured[pace.name]),
            all_in(alone, naive(measured[pace.name], first)),
            "dollars",
        )
        for pace in PACES
    ]


def all_in(pace: Pace, of: Amounts) -> float:
    return sum(dollars(pace, of).values())


def amounts_table(measured: Mapping[str, Amounts]) -> str:
    rows = [(label, [_shown(getattr(one, name)) for one in measured.values()]) for name, label in LABELS.items()]
    return _table("for one push", measured, rows)


def dollars_table(measured: Mapping[str, Amounts]) -> str:
    billed = [dollars(pace, measured[pace.name]) for pace in PACES]
    rows = [(name, [f"{each[name]:.2f}" for each in billed]) for name in billed[0]]
    total = ("**all in**", [f"**{sum(each.values()):.2f}**" for each in billed])
    return _table("dollars a million pushes", measured, [*rows, total])


def floor(pace: Pace, of: Amounts) -> float:
    """What no pace can do without: units, requests, records and invocations."""
    billed = dollars(pace, of)
    return sum(billed[name] for name in ("DynamoDB", "SQS", "Firehose", "Lambda, invocations"))


def memory_table(measured: Mapping[str, Amounts]) -> str:
    """What match's time costs at other sizes."""
    billed = [
        (f"match at {size:,} MB", [f"{match_time(pace, measured[pace.name], size):.2f}" for pace in PACES])
        for size in SIZES
    ]
    return _table("dollars a million pushes", measured, billed)


def match_time(pace: Pace, of: Amounts, memory_mb: int = PROD.match.size.memory_mb) -> float:
    """Dollars a million pushes."""
    return lambda_time(of.match_waiting, of.match_processor, pace.pushes, memory_mb)


def last_line(measured: Mapping[str, Amounts]) -> str:
    totals = (f"{pace.name} ${all_in(pace, measured[pace.name]):.2f}" for pace in PACES)
    return f"all-in a million: {', '.join(totals)}"


def report(measured: Mapping[str, Amounts]) -> str:
    """Both tables and the last line, which all go by the digits that are shown."""
    table = amounts_table(measured)
    rounded = read_amounts(table)
    return "\n\n".join([table, dollars_table(rounded), last_line(rounded)])


def read_amounts(page: str) -> dict[str, Amounts]:
    """Undo `amounts_table`, wherever on the page it stands."""
    lines = page.splitlines()
    start = lines.index(_header("for one push", [pace.name for pace in PACES])[0]) + 2
    rows = (line.strip("| ").split(" | ") for line in takewhile(lambda line: line.startswith("|"), lines[start:]))
    columns = zip(*(map(_read, figures) for _, *figures in rows), strict=True)
    return {pace.name: Amounts(*column) for pace, column in zip(PACES, columns, strict=True)}


def _platform_bytes() -> int:
    return len("".join(PLATFORM_LINES)) if PROD.invocation_logs else 0


def recorded_metrics(log: str) -> set[tuple[str, str]]:
    """The metrics that were recorded, by service and name."""
    lines = [json.loads(line) for line in log.splitlines()]
    return {
        (line["service"], metric["Name"])
        for line in lines
        if "_aws" in line
        for group in line["_aws"]["CloudWatchMetrics"]
        for metric in group["Metrics"]
    }


def lambda_time(waiting: float, processor: float, pushes: int, memory_mb: int) -> float:
    """Dollars a million pushes, of milliseconds for each."""
    invocation = invocation_ms(waiting, processor, pushes, memory_mb) / 1000 * memory_mb / 1024
    return invocation * GIGABYTE_SECOND / pushes


def invocation_ms(waiting: float, processor: float, pushes: int, memory_mb: int) -> int:
    """As it is billed: by the full millisecond."""
    return ceil((waiting + processor * max(1, PROCESSOR_MB / memory_mb)) * pushes)


def _table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, list[str]]]) -> str:
    return "\n".join([*_header(title, columns), *(f"| {name} | {' | '.join(figures)} |" for name, figures in rows)])


def _header(title: str, columns: Iterable[str]) -> list[str]:
    names = list(columns)
    return [f"| {title} | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]


def _shown(amount: float) -> str:
    """Parts of a month or a file as one of so many, all else with two digits."""
    return f"{amount:,.2f}" if amount >= 0.05 or amount == 0 else f"1 / {1 / amount:,.0f}"


def _read(shown: str) -> float:
    numerator, _, denominator = shown.replace(",", "").partition(" / ")
    return float(numerator) / float(denominator or 1)
