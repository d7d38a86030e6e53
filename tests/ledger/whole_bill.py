"""Everything that AWS bills for a delivered push, from ingest's sending to the provider, at three paces.

The units, requests and bytes are counted on the real code, whatever else the machine does. The processor's time is
measured, and so differs from run to run: nothing is compared with it. What traffic makes ingest spend by the time is
what it records of itself, as it does, and what its settings say.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from statistics import median

from bench.figures import Figure
from clarion.decisions import EnvelopeDecision
from clarion.metrics import Metric, decided
from infra.environments import PROD
from ingest.counts import PERIOD, Counts, Gauges
from ingest.counts import report as report_counts
from pipeline.prices import FIREHOSE_RECORD_BYTES
from tests.ledger.bill import (
    AMOUNTS_TABLE,
    FUNCTIONS,
    MONTH,
    PACES,
    Amounts,
    Pace,
    all_in,
    bill_table,
    last_line,
    saves_a_second,
    stream_reads_a_second,
)
from tests.ledger.end_to_end import EndToEnd, Usage, deployed_stages
from tests.match.scene import Sender

ROUNDS = 20
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
MEASURED_TIMES = {"match_processor", "dispatch_processor"}
IDLE_GAUGES: Gauges = {Metric.SHARDS_OWNED: 128, Metric.RULES_BEHIND: 2_500, Metric.INGEST_LAG: 0}
COUNTED = (
    Metric.ENVELOPES_RECEIVED,
    Metric.ENVELOPES_FORWARDED,
    Metric.ENVELOPES_SKIPPED,
    decided(EnvelopeDecision.UNMATCHED),
)
"""By an ingest task, of envelopes that two nodes show, and of which some are wanted."""


def ingest_log(counts: Counts) -> str:
    """What an ingest task writes of ten seconds."""
    log = StringIO()
    with redirect_stdout(log):
        report_counts(PROD.stage, counts, {**IDLE_GAUGES, Metric.INGEST_LAG: 1_000 if counts else 0})
    return log.getvalue()


@cache
def ingest_metrics() -> int:
    """How many metrics there are with traffic that an idle ingest doesn't record."""
    busy, idle = (recorded_metrics(ingest_log(counts)) for counts in (_counted(), Counter()))
    return len(busy - idle)


@cache
def ingest_logged() -> float:
    """Bytes a second that all tasks write more with traffic."""
    busy, idle = (len(ingest_log(counts).encode()) for counts in (_counted(), Counter()))
    assert PROD.ingest is not None
    return PROD.ingest.tasks * (busy - idle) / PERIOD


def _counted() -> Counts:
    return Counter(dict.fromkeys(COUNTED, 100))


def new_senders(stages: EndToEnd, pace: Pace) -> list[Sender]:
    return stages.new_pairs(pace.pairs) * (pace.pushes // pace.pairs)


def amounts(pace: Pace, usage: Usage) -> Amounts:
    bill, count = usage.bill, pace.pushes
    logged = len(usage.log.encode()) + FUNCTIONS * _platform_bytes() + ingest_logged()
    metrics = len(recorded_metrics(usage.log)) + ingest_metrics()
    return Amounts(
        reads=bill.reads / count,
        writes=bill.writes / count,
        requests=(bill.sent + bill.received) / count,
        streamed=bill.streamed / count,
        files=1 / (PROD.lake_buffer_s * count),
        saves=saves_a_second() / count,
        stream=stream_reads_a_second() / count,
        invocations=FUNCTIONS / count,
        match_waiting=usage.match.waiting / count,
        match_processor=usage.match.processor / count,
        dispatch_waiting=usage.dispatch.waiting / count,
        dispatch_processor=usage.dispatch.processor / count,
        logged=logged / count,
        metrics=metrics / (MONTH * count),
        # X-Ray takes the first request of each second, and at these paces there is no second one.
        traces=FUNCTIONS / count if PROD.tracing else 0,
        sent=usage.sent / count,
    )


def measure(stages: EndToEnd, pace: Pace, rounds: int = ROUNDS) -> Amounts:
    """The most of each count, the least of each time, since other work only delays, and the usual size of a request.

    A round before opens the connections.
    """
    stages.deliver(new_senders(stages, pace))
    found = [amounts(pace, stages.deliver(new_senders(stages, pace))) for _ in range(rounds)]
    chosen: dict[str, Callable[[Iterable[float]], float]] = {"sent": median, **dict.fromkeys(MEASURED_TIMES, min)}
    return Amounts(*(chosen.get(name, max)(getattr(one, name) for one in found) for name in Amounts._fields))


def measure_all() -> dict[str, Amounts]:
    with deployed_stages() as stages:
        return {pace.name: measure(stages, pace) for pace in PACES}


def naive(of: Amounts, alone: Amounts) -> Amounts:
    """The naive design's at the pace of `of`: docs/cost.md, "Beside the naive design".

    Three records for match's events, not one; what the page doesn't say is as with ours. Pushes share nothing but what is
    billed by the time.
    """
    streamed = alone.streamed + 2 * FIREHOSE_RECORD_BYTES
    by_time = {name: getattr(of, name) for name in ("files", "saves", "stream", "metrics")}
    return alone._replace(reads=4.5, writes=5, streamed=streamed, **by_time)


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


def report(measured: Mapping[str, Amounts]) -> str:
    """Both tables and the last line, which all go by the digits that are shown."""
    amounts = AMOUNTS_TABLE.text(measured.values())
    rounded = AMOUNTS_TABLE.read(amounts)
    return "\n\n".join([amounts, bill_table(rounded), last_line(rounded)])


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
