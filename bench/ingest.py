"""What one core can do: the intake of statements, the candidate filter, the set of seen envelopes.

    RULES=10_000_000 SEEN=4_000_000 python -m bench.ingest

Writes what forwarding takes to bench/measured.json. Ends with 1 if more memory or time is taken than it may.
"""

import asyncio
import json
import os
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import batched
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import sr25519
from websockets.asyncio.server import ServerConnection, serve

from bench.figures import Figure, record, report
from bench.stand_ins import Answer, serving
from clarion.clock import now_ms
from clarion.event_log import EventWriter
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Statement, encode
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import sign
from clarion.settings import EventSettings
from clarion.tables import rule_key
from ingest.delivery.destinations import CommandQueues, EnvelopeQueue, LakeStream
from ingest.delivery.outbox import Budget, Outbox
from ingest.delivery.outboxes import Outboxes
from ingest.delivery.outgoing import Outgoing
from ingest.filter.candidates import CandidateFilter
from ingest.filter.fingerprints import of_key
from ingest.filter.rule_feed import SCAN_SEGMENTS, RuleFeed
from ingest.intake import Intake
from ingest.lease.shards import Shards
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.standby import Standby
from ingest.memory.unmatched import UnmatchedBuffer
from ingest.sources.feed import Feed
from ingest.sources.statements.protocol import Shown, read
from ingest.sources.statements.source import SOURCE_SPEC
from ingest.sources.websocket import open_connection
from ingest.wiring import AwsClients
from tests.match.scene import credentials

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

DATA_BYTES = 300
KEYPAIR = sr25519.pair_from_seed(bytes(32))
WANTED_TOPIC = bytes(32)
"""The one that a rule names."""
AMPLE = 1 << 40
FILTER_BYTES = 30
SEEN_BYTES = 50
FEWEST_LOOKUPS = 200_000
LONGEST_HOLD = 0.1
"""Seconds for which saving may hold the stream."""
FORGOTTEN_AT_ONCE = 5_000
FILTER_MEMORY = "memory of the candidate filter, beside its limit"
LOOK_UPS = "look-ups in the candidate filter, beside its limit"
SHARED = "take statements in, two processes that share them, beside one"
SEEN_MEMORY = "memory of the seen envelopes, beside its limit"
FORWARD = "take statements in with their socket, and forward them"
READ_RULES = "read rules from their table into the candidate filter"
RULES_A_PAGE = 4_000
"""As many as the megabyte holds that DynamoDB reads for a page."""
HOLD = "hold the stream while the seen envelopes are saved, beside its limit"
ALLOWED = {FILTER_MEMORY: (0, 1), LOOK_UPS: (1, inf), SHARED: (1.2, inf), SEEN_MEMORY: (0, 1), HOLD: (0, 1)}
"""The ratios that are allowed. Two processes take in more than one, though both read all."""


class Sizes(NamedTuple):
    """How much there is of what is measured."""

    rules: int = int(os.environ.get("RULES", "10_000_000"))
    seen: int = int(os.environ.get("SEEN", "4_000_000"))
    frames: int = 20_000
    lookups: int = 500_000
    rounds: int = 5
    readings: int = 20


THOROUGH = Sizes()


def resident_megabytes() -> float:
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def frame(topic: bytes) -> bytes:
    """A statement of 550 bytes as it is shown live, alone."""
    topics = (topic, os.urandom(32))
    raw = encode(sign(Statement(2**63, topics, os.urandom(DATA_BYTES), os.urandom(32)), KEYPAIR))
    result = {"event": "newStatements", "data": {"statements": ["0x" + raw.hex()]}}
    return json.dumps({"jsonrpc": "2.0", "method": "statement_statement", "params": {"result": result}}).encode()


def per_second[T](work: Callable[[T], object], inputs: Sequence[T]) -> float:
    """By CPU time, so that other programs on the machine don't count."""
    start = time.process_time()
    for one in inputs:
        work(one)
    return len(inputs) / (time.process_time() - start)


def random_rule_keys(count: int) -> Iterable[bytes]:
    for _ in range(count):
        yield rule_key(1, key_of(os.urandom(32), os.urandom(32)))


def measure_filter(candidates: CandidateFilter, sizes: Sizes) -> list[Figure]:
    before = resident_megabytes()
    candidates.add(random_rule_keys(sizes.rules))
    each = (resident_megabytes() - before) * 1e6 / sizes.rules
    named = [(os.urandom(32), os.urandom(32)) for _ in range(sizes.lookups)]
    rate = per_second(lambda pair: candidates.match_any([of_key(key_of(*pair))]), named)
    return [
        Figure.beside(FILTER_MEMORY, each, FILTER_BYTES, "bytes a rule"),
        Figure.beside(LOOK_UPS, rate, FEWEST_LOOKUPS, "look-ups/s"),
    ]


class Reader:
    """What one of `tasks` equal ones does with statements, until it forgets those that no rule names, which most are."""

    def __init__(self, candidates: CandidateFilter, tasks: int, seen: int, outbox: Outbox[Outgoing]) -> None:
        self._now = now_ms()
        self._candidates = candidates
        self._seen = SeenEnvelopes(seen)
        shards = Shards("0")
        shards.divide([str(number) for number in range(tasks)])
        self._standby = Standby(shards, Budget(AMPLE), overlap_ms=0)
        self._feed = Feed(1, STATEMENTS, SOURCE_SPEC)
        self._intake = Intake(
            shards=shards,
            standby=self._standby,
            seen=self._seen,
            candidates=candidates,
            unmatched=UnmatchedBuffer(AMPLE),
            outbox=outbox,
            counts=Counter(),
            rule_lag_ms=0,
            clock=lambda: self._now,
        )

    async def take(self, each: bytes) -> None:
        shown = read(each)
        if isinstance(shown, Shown):
            await self._intake.take(shown.statements, self._feed)

    async def forget(self) -> None:
        """As when the rules have been read past it, and its owner has delivered it."""
        self._now += 1
        self._candidates.fresh_as_of = self._now
        await self._intake.look_again(self._feed.number)
        for held in self._standby.take_delivered(lambda _: self._now):
            self._seen.remember(held.fingerprint, held.source)


def unused_outbox() -> Outbox[Outgoing]:
    return Outbox(to="nobody", budget=Budget(AMPLE), most=1, linger=0, taken=print)


class Cost(NamedTuple):
    """CPU seconds of all that some statements cost but their socket: to take them in, and to forget them."""

    taking: float
    forgetting: float


def cost_of(reader: Reader, frames: Sequence[bytes]) -> Cost:

    async def take_all(some: Iterable[bytes]) -> None:
        for each in some:
            await reader.take(each)

    taking = forgetting = 0.0
    for some in batched(frames, FORGOTTEN_AT_ONCE, strict=False):
        taking += cpu_seconds(take_all(some))
        forgetting += cpu_seconds(reader.forget())
    return Cost(taking, forgetting)


def cpu_seconds(work: Coroutine[Any, Any, None]) -> float:
    start = time.process_time()
    asyncio.run(work)
    return time.process_time() - start


def measure_intake(candidates: CandidateFilter, sizes: Sizes) -> list[Figure]:
    """Of several rounds the best, since what else runs on a machine shares its caches."""
    count = sizes.frames
    frames = [frame(os.urandom(32)) for _ in range(count)]
    wanted = [frame(WANTED_TOPIC) for _ in range(count)]
    candidates.add([rule_key(1, key_of(KEYPAIR[0], WANTED_TOPIC))])
    rounds = [
        [cost_of(Reader(candidates, tasks, sizes.seen, unused_outbox()), frames) for tasks in (1, 2)]
        for _ in range(sizes.rounds)
    ]
    alone, of_two = (count / min(cost.taking for cost in costs) for costs in zip(*rounds, strict=True))
    whole, whole_of_two = (count / min(map(sum, costs)) for costs in zip(*rounds, strict=True))
    with_socket, forwarding = (
        count / min(asyncio.run(seconds_with_socket(candidates, sizes.seen, some)) for _ in range(sizes.rounds))
        for some in (frames, wanted)
    )
    unit = "statements/s"
    return [
        Figure.beside("take statements in, beside Python's JSON parser", alone, per_second(json.loads, frames), unit),
        Figure.beside(SHARED, of_two, alone, unit),
        Figure.alone("take statements in until they are forgotten", whole, unit),
        Figure.beside(
            "take statements in until they are forgotten, two processes that share them, beside one",
            whole_of_two,
            whole,
            unit,
        ),
        Figure.alone("take statements in with their socket", with_socket, unit),
        Figure.alone(FORWARD, forwarding, unit),
    ]


def serve_node_and_aws(port: "Connection", frames: Sequence[bytes]) -> None:
    """A node that shows them to each who connects, and what takes all that SQS and Firehose would."""

    async def converse(socket: ServerConnection) -> None:
        for each in frames:
            await socket.send(each, text=True)

    async def run() -> None:
        async with serve(converse, "127.0.0.1", 0, compression=None) as server, serving(accept) as aws:
            port.send((next(iter(server.sockets)).getsockname()[1], aws))
            await server.wait_closed()

    asyncio.run(run())


def accept(request: dict[str, Any]) -> Answer:
    """Of SendMessageBatch and of PutRecordBatch."""
    successful = [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in request.get("Entries", ())]
    return "200 OK", {"Successful": successful, "FailedPutCount": 0}


async def seconds_with_socket(candidates: CandidateFilter, seen: int, frames: Sequence[bytes]) -> float:
    """CPU time of the task alone, until what is wanted has been taken: node and AWS are another process."""
    here, there = get_context("spawn").Pipe()
    beside = get_context("spawn").Process(target=serve_node_and_aws, args=(there, frames), daemon=True)
    beside.start()
    port, aws = here.recv()
    delivery = outboxes(aws)
    task = Reader(candidates, 1, seen, delivery.envelopes)
    socket = await open_connection(f"ws://127.0.0.1:{port}")
    start = time.process_time()
    sending = asyncio.create_task(delivery.send_forever())
    for _ in frames:
        await task.take(await socket.recv(decode=False))
    await delivery.drain()
    seconds = time.process_time() - start
    sending.cancel()
    beside.terminate()
    return seconds


def outboxes(aws: str) -> Outboxes:
    """By ingest's own clients, to the address of what stands in for AWS."""
    os.environ |= credentials() | {"AWS_ENDPOINT_URL": aws}
    clients = AwsClients.from_environment("bench-")
    settings = EventSettings(events_stream="bench", late_events_queue_url=aws)
    return Outboxes(
        queue=EnvelopeQueue(clients.sqs, aws, clients.s3, "bench"),
        lake=LakeStream(EventWriter(clients.firehose, clients.sqs, settings)),
        commands=CommandQueues(clients.sqs, {}),
        command_networks=(),
        capacity=AMPLE,
        sources=1,
        lake_linger=1.0,
        counts=Counter(),
    )


def serve_rules(port: "Connection") -> None:
    """A table of which each page is the last, and full of other rules."""

    def answer(_: dict[str, Any]) -> Answer:
        keys = (b64encode(key).decode() for key in random_rule_keys(RULES_A_PAGE))
        return "200 OK", {"Items": [{"rule_key": {"B": key}} for key in keys]}

    async def run() -> None:
        async with serving(answer) as aws:
            port.send(aws)
            await asyncio.Event().wait()

    asyncio.run(run())


def measure_reading(sizes: Sizes) -> list[Figure]:
    """By CPU time of the task alone: the table is another process."""
    here, there = get_context("spawn").Pipe()
    beside = get_context("spawn").Process(target=serve_rules, args=(there,), daemon=True)
    beside.start()
    os.environ |= credentials() | {"AWS_ENDPOINT_URL": here.recv()}
    clients = AwsClients.from_environment("bench-")
    feed = RuleFeed(clients.dynamodb, clients.streams, "bench-rules", CandidateFilter())
    seconds = sum(cpu_seconds(feed.read()) for _ in range(sizes.readings))
    beside.terminate()
    rules = sizes.readings * SCAN_SEGMENTS * RULES_A_PAGE
    return [Figure.alone(READ_RULES, rules / seconds, "rules/s")]


def measure_seen(count: int) -> list[Figure]:
    return asyncio.run(_measure_seen(count))


async def _measure_seen(count: int) -> list[Figure]:
    before = resident_megabytes()
    seen = SeenEnvelopes(2 * count)
    for _ in range(count):
        statement = int.from_bytes(os.urandom(8), signed=True) or 1
        seen.refresh(statement)
        seen.add(statement, 1)
        seen.handled(statement)
    seen.saved(seen.delta())
    each = (resident_megabytes() - before) * 1e6 / count
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - start)

    watching = asyncio.create_task(watch())
    start = time.perf_counter()
    snapshot = await seen.snapshot()
    seconds = time.perf_counter() - start
    watching.cancel()
    return [
        Figure.beside(SEEN_MEMORY, each, SEEN_BYTES, "bytes an envelope"),
        Figure.alone("size of their snapshot", len(snapshot) / count, "bytes an envelope"),
        Figure.alone("save the seen envelopes", seconds / count * 1e6, "s a million"),
        Figure.beside(HOLD, longest * 1000, LONGEST_HOLD * 1000, "ms"),
    ]


def measure_candidates(sizes: Sizes) -> list[Figure]:
    candidates = CandidateFilter()
    return [*measure_filter(candidates, sizes), *measure_reading(sizes), *measure_intake(candidates, sizes)]


def figures(sizes: Sizes = THOROUGH) -> list[Figure]:
    # A fresh process each, so that one's memory isn't the other's.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as processes:
        found = processes.submit(measure_candidates, sizes), processes.submit(measure_seen, sizes.seen)
        return [figure for future in found for figure in future.result()]


def beyond(figures: Iterable[Figure]) -> Iterator[str]:
    """Which take more than they may."""
    for figure in figures:
        least, most = ALLOWED.get(figure.name, (0, inf))
        if not least <= (figure.ratio or 0) <= most:
            yield figure.name


def main() -> None:
    found = figures()
    report(found)
    a_second = {figure.name: figure.ours for figure in found}
    record(
        "make bench-ingest",
        ingest_cpu_s=(1 / a_second[FORWARD], "one statement, with its socket, taken in and forwarded"),
        rule_cpu_s=(1 / a_second[READ_RULES], "one rule, read from its table into the candidate filter"),
    )
    if too_dear := list(beyond(found)):
        raise SystemExit("\n".join(too_dear))


if __name__ == "__main__":
    main()
