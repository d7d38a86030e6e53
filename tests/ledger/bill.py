"""What AWS bills for a delivered push, from ingest's sending to the provider: the amounts, their prices, and the tables.

`tests.ledger.whole_bill` counts the amounts on the real code.
"""

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from bench import rules_stream
from bench.markdown import table_row
from infra.environments import PROD
from ingest.delivery.outboxes import QUEUE_LINGER_SECONDS
from ingest.settings import IngestSettings
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
    STREAM_READ,
    TRACE,
    WRITE_UNIT,
)
from tests.ledger.amounts import AmountsTable, dollars_table, table

MONTH = 730 * 3600
"""Seconds."""
PROCESSOR_MB = 1769
"""With so much memory, a function has one whole processor, and with less as much less."""
SIZES = (512, 1024, 1769)
FUNCTIONS = 2
FILE = S3_PUT + 3 * SQS_REQUEST + INVOCATION + S3_GET + S3_PUT
"""A file of the lake: written, announced by a message, read by the function `deliveries`, its index written."""
OBSERVED_BYTES = 900
"""The line in the lake of a statement of 550 bytes, written by ingest."""


class Pace(NamedTuple):
    """One batch a second, of so many pushes, for as many pairs of a sender and a phone."""

    name: str
    pushes: int
    pairs: int


PACES = (Pace("alone", 1, 1), Pace("in tens", 10, 10), Pace("ten of one pair", 10, 1))
ALONE, IN_TENS, _ = PACES


class Amounts(NamedTuple):
    """For one push. Times are in milliseconds, `files`, `saves` and `metrics` in parts of one, and of a metric's month."""

    reads: float
    writes: float
    requests: float
    streamed: float
    files: float
    saves: float
    stream: float
    invocations: float
    match_waiting: float
    match_processor: float
    dispatch_waiting: float
    dispatch_processor: float
    logged: float
    metrics: float
    traces: float
    sent: float


STREAM = "the rules' stream"
DOLLARS = "dollars a million pushes"


def _shown(amount: float) -> str:
    """Parts of a month or a file as one of so many, all else with two digits."""
    return f"{amount:,.2f}" if amount >= 0.05 or amount == 0 else f"1 / {1 / amount:,.0f}"


AMOUNTS_TABLE = AmountsTable(
    Amounts,
    "for one push",
    [pace.name for pace in PACES],
    {
        "files": "S3, files",
        "saves": "S3, ingest's record",
        "stream": "reads of the rules' stream",
        "metrics": "metrics, months",
        "traces": "traces",
    },
    _shown,
)


def dollars(pace: Pace, of: Amounts) -> dict[str, float]:
    """By service, for a million pushes."""
    dispatch_mb = PROD.dispatch.size.memory_mb
    return {
        "DynamoDB": of.reads * READ_UNIT + of.writes * WRITE_UNIT,
        STREAM: of.stream * STREAM_READ,
        "SQS": of.requests * SQS_REQUEST,
        "Firehose": of.streamed * FIREHOSE_BYTE,
        "S3": of.files * FILE + of.saves * S3_PUT,
        "Lambda, invocations": of.invocations * INVOCATION,
        "Lambda, match's time": match_time(pace, of),
        "Lambda, dispatch's time": lambda_time(of.dispatch_waiting, of.dispatch_processor, pace.pushes, dispatch_mb),
        "logs": of.logged * LOG_BYTE,
        "metrics": of.metrics * METRIC_MONTH,
        "traces": of.traces * TRACE,
        "transfer to the provider": of.sent * SENT_BYTE,
    }


def all_in(pace: Pace, of: Amounts) -> float:
    return sum(dollars(pace, of).values())


def floor(pace: Pace, of: Amounts) -> float:
    """What no pace can do without: units, requests, records and invocations."""
    billed = dollars(pace, of)
    return sum(billed[name] for name in ("DynamoDB", "SQS", "Firehose", "Lambda, invocations"))


def at_rate(pace: Pace, of: Amounts, pushes: float) -> Amounts:
    """So many pushes a second, in batches of the pace: they share what is billed by the time."""
    batches = pushes / pace.pushes
    by_time = {name: getattr(of, name) / batches for name in ("files", "saves", "stream", "metrics")}
    streamed = of.streamed - _observed_bytes(pace.pushes) + _observed_bytes(pushes)
    return of._replace(**by_time, streamed=streamed)


def _observed_bytes(pushes: float) -> float:
    """What Firehose bills for a push of ingest's record of one second."""
    return ceil(pushes * OBSERVED_BYTES / FIREHOSE_RECORD_BYTES) * FIREHOSE_RECORD_BYTES / pushes


def batch_at(pushes: float) -> float:
    """How many of so many a second, at random, share a request of ingest's: the first waits so long for the others."""
    return min(10, 1 + pushes * QUEUE_LINGER_SECONDS)


def saves_a_second() -> float:
    """Of ingest's record, which the one task writes that has it to write, whenever anything was handled."""
    return 1 / float(IngestSettings.model_fields["save_seconds"].default)


def stream_reads_a_second() -> float:
    """How many more there are while an envelope waits for a rule, as one always does at these paces."""
    assert PROD.ingest is not None
    tasks, pause = PROD.ingest.tasks, PROD.ingest.following.stream_poll_seconds
    assert pause is not None
    idle = float(IngestSettings.model_fields["stream_idle_seconds"].default)
    return rules_stream.reads_a_second(tasks, pause) - rules_stream.reads_a_second(tasks, idle)


def bill_table(measured: Mapping[str, Amounts]) -> str:
    billed = [dollars(pace, measured[pace.name]) for pace in PACES]
    total = table_row(["**all in**", *(f"**{sum(each.values()):.2f}**" for each in billed)])
    return f"{dollars_table(DOLLARS, measured, billed)}\n{total}"


def memory_table(measured: Mapping[str, Amounts]) -> str:
    """What match's time costs at other sizes."""
    billed = [
        (f"match at {size:,} MB", [f"{match_time(pace, measured[pace.name], size):.2f}" for pace in PACES])
        for size in SIZES
    ]
    return table(DOLLARS, measured, billed)


def match_time(pace: Pace, of: Amounts, memory_mb: int = PROD.match.size.memory_mb) -> float:
    """Dollars a million pushes."""
    return lambda_time(of.match_waiting, of.match_processor, pace.pushes, memory_mb)


def last_line(measured: Mapping[str, Amounts]) -> str:
    totals = (f"{pace.name} ${all_in(pace, measured[pace.name]):.2f}" for pace in PACES)
    return f"all-in a million: {', '.join(totals)}"


def lambda_time(waiting: float, processor: float, pushes: int, memory_mb: int) -> float:
    """Dollars a million pushes, of milliseconds for each."""
    invocation = invocation_ms(waiting, processor, pushes, memory_mb) / 1000 * memory_mb / 1024
    return invocation * GIGABYTE_SECOND / pushes


def invocation_ms(waiting: float, processor: float, pushes: int, memory_mb: int) -> int:
    """As it is billed: by the full millisecond."""
    return ceil((waiting + processor * max(1, PROCESSOR_MB / memory_mb)) * pushes)
