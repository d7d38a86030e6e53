"""What an ingest task of production's size holds at most: `make bench-task` fills all that it bounds, and saves its record.

    RULES=1_000_000 python -m bench.task_memory

Ends with 1 if that is more than `MOST` of the task's memory. What is shared in a running task, such as an envelope that
waits for the lake and for a second look, is here twice.
"""

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

from bench.ingest import random_rule_keys
from clarion.clock import now_ms
from clarion.networks import STATEMENTS, network
from infra.environments import PROD
from infra.options import Ingest
from ingest.delivery.outbox import Outbox
from ingest.delivery.outgoing import Outgoing
from ingest.filter.fingerprints import of_envelope
from ingest.memory.seen import SHARED
from ingest.memory.standby import ReceivedEnvelope, Reception
from ingest.memory.unmatched import Arrival
from ingest.settings import IngestSettings
from ingest.sources.feed import Feed
from ingest.sources.statements.source import SOURCE_SPEC
from ingest.task import Task
from ingest.wiring import AwsClients, wire

RULES = int(os.environ.get("RULES", "1_000_000"))
STATEMENT_BYTES = 550
NODES = ("wss://one.example", "wss://two.example")
MOST = 0.85
"""The rest is for the kernel's own, and for requests in flight."""
NUMBER = bytes([network(STATEMENTS).number])


def task_of(ingest: Ingest) -> Task:
    """With clients that are never used."""
    os.environ |= {"AWS_DEFAULT_REGION": PROD.region, "AWS_ACCESS_KEY_ID": "-", "AWS_SECRET_ACCESS_KEY": "-"}
    settings = IngestSettings.model_validate(
        {
            **ingest.following.model_dump(exclude_none=True),
            "nodes": {STATEMENTS: NODES},
            "envelopes_queue_url": "-",
            "oversize_bucket": "-",
            "events_stream": "-",
            "late_events_queue_url": "-",
        }
    )
    return wire(settings, AwsClients.from_environment(""))


def outgoing(source: int) -> Outgoing:
    raw = os.urandom(STATEMENT_BYTES)
    keys = [int.from_bytes(os.urandom(7)) for _ in range(4)]
    return Outgoing(
        network=STATEMENTS,
        receipt=uuid4(),
        observed_at=now_ms(),
        fingerprint=of_envelope(raw, NUMBER),
        raw=raw,
        keys=keys,
        source=source,
    )


def sources() -> Iterator[int]:
    return iter(range(1, len(NODES) + 1))


def fill(task: Task) -> None:
    task.sharing.shards.divide([task.sharing.leases.me, "another"])
    for source in sources():
        for outbox in (task.outboxes.envelopes, task.outboxes.unrecorded):
            _fill_outbox(outbox, source)
        _fill_forwarded(task, source)
        _fill_unmatched(task, source)
        _fill_standby(task, source)


def _fill_outbox(outbox: Outbox[Outgoing], source: int) -> None:
    while not outbox.is_full(source):
        outbox.add(outgoing(source))


def _fill_forwarded(task: Task, source: int) -> None:
    """Until it lets go of as many as come."""
    before = -1
    while len(task.second_looks) > before:
        before = len(task.second_looks)
        task.second_looks.sent(outgoing(source))


def _fill_unmatched(task: Task, source: int) -> None:
    while task.unmatched.take_overflow(source) is None:
        one = outgoing(source)
        task.unmatched.add(Arrival(one.observed_at, one.fingerprint, one.keys, STATEMENTS, one.raw, source))


def _fill_standby(task: Task, source: int) -> None:
    feed = Feed(source, STATEMENTS, SOURCE_SPEC)
    while True:
        one = outgoing(source)
        received = ReceivedEnvelope(one.fingerprint, one.raw, Reception(feed, one.observed_at, None))
        if not task.sharing.standby.hold(received):
            return


def see(task: Task) -> None:
    """As many envelopes as are remembered, of each source and verified."""
    for source in (SHARED, *sources()):
        for number in count():
            if number % 100_000 == 0:
                print(end=".", file=sys.stderr, flush=True)
            fingerprint = of_envelope(os.urandom(8), NUMBER)
            if not task.seen.add(fingerprint, source):
                break
            task.seen.handled(fingerprint)
    task.seen.saved(task.seen.delta())


def peak_megabytes() -> float:
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def steps(task: Task) -> Iterable[tuple[str, float]]:
    yield "started", peak_megabytes()
    task.candidates.add(random_rule_keys(RULES))
    yield f"{RULES:,} rules", peak_megabytes()
    see(task)
    yield f"{task.seen.size:,} envelopes seen", peak_megabytes()
    fill(task)
    yield "all that waits", peak_megabytes()
    asyncio.run(task.seen.snapshot())
    yield "a record to save", peak_megabytes()


def main() -> None:
    ingest = PROD.ingest or sys.exit("production has no ingest")
    peak = 0.0
    for name, peak in steps(task_of(ingest)):
        print(f"{name}: {peak:.0f} MB")
    print(f"at most {peak:.0f} MB of {ingest.memory_mb} MB")
    sys.exit(peak > MOST * ingest.memory_mb)


if __name__ == "__main__":
    main()
