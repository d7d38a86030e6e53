"""Ingest against what happens in production, for minutes: real processes, kill -9, the emulator's AWS, real WebSockets.

python -m bench.soak_ingest [tasks] [replay] [rules]      all three by default; SOAK_SECONDS=60

Each scenario fails once it has taken `AROUND_SECONDS` more than `SOAK_SECONDS`, and says what it was doing then.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.request import urlopen
from uuid import uuid4

import boto3
import sr25519
from moto import mock_aws
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from bench.stand_ins import LATE_EVENTS, QueueStandIn, Stream, serving
from clarion.claims import lasts_until
from clarion.clock import now_ms
from clarion.messages import ObservedMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Statement, decode, encode
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import Keypair, sign
from clarion.tables import PushRecord, rule_key
from local.emulator import Emulator, started
from local.ports import reserved_port
from local.store import StatementStore
from match.claims import Claim, ClaimRequest, Claims

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SECONDS = int(os.environ.get("SOAK_SECONDS", "60"))
RATE = 1000
KEYPAIR = sr25519.pair_from_seed(b"\x5e" * 32)
SENDER: bytes = KEYPAIR[0]
TOPIC = b"\x70" * 32
REPLAYED = 1_000_000
GRACE_SECONDS = 40
PAUSE_SECONDS = 14
TAKE_OVER_SECONDS = 15
AROUND_SECONDS = 600
"""For what comes before and after the soak: starting, signing, replaying, what is still to arrive, and counting."""
NOTE_SECONDS = 10
CLAIMED = 1_000
"""Statements that came more than once whose messages are claimed: a claim in moto takes some milliseconds."""
NEVER = 0xFFFF_FFFF << 32


class SoakProgress:
    """Prints what is being done, with the seconds since the scenario began."""

    def __init__(self) -> None:
        self._began = self._noted = time.monotonic()
        self.latest = "starting"

    def note(self, text: str) -> None:
        self._noted = time.monotonic()
        self.latest = text
        print(f"  {self._noted - self._began:4.0f} s  {text}", flush=True)

    def note_now_and_then(self, text: str) -> None:
        if time.monotonic() - self._noted > NOTE_SECONDS:
            self.note(text)


@cache
def make_statement(number: int, *, keypair: Keypair = KEYPAIR, topic: bytes = TOPIC) -> bytes:
    """The same bytes each time, though signing is random."""
    return encode(sign(Statement(NEVER, (topic,), number.to_bytes(8) + bytes(398)), keypair))


class Aws:
    """The emulator with the bucket and the tables that ingest uses."""

    def __init__(self, emulator: Emulator) -> None:
        self.variables = emulator.variables
        self._session = emulator.session
        self._endpoint = emulator.endpoint
        self._session.client("s3", endpoint_url=self._endpoint).create_bucket(Bucket="soak")
        self._make_tables(self.dynamodb())
        self.write_rule(SENDER, TOPIC)

    def dynamodb(self) -> "DynamoDBClient":
        return self._session.client("dynamodb", endpoint_url=self._endpoint)

    def write_rule(self, sender: bytes, topic: bytes) -> None:
        key = key_of(sender, topic)
        item: dict[str, Any] = {"subscription_id": {"S": "soak"}, "rule_key": {"B": rule_key(1, key)}}
        self.dynamodb().put_item(TableName="soak-rules", Item=item | {"key": {"B": key}})

    def _make_tables(self, dynamodb: "DynamoDBClient") -> None:
        dynamodb.create_table(
            TableName="soak-leases",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
        )
        dynamodb.create_table(
            TableName="soak-rules",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "subscription_id", "KeyType": "HASH"},
                {"AttributeName": "rule_key", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "subscription_id", "AttributeType": "S"},
                {"AttributeName": "rule_key", "AttributeType": "B"},
            ],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )


@dataclass
class Outlets:
    """Where ingest sends to."""

    queue: QueueStandIn = field(default_factory=QueueStandIn)
    stream: Stream = field(default_factory=Stream)
    queue_url: str = ""
    stream_url: str = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Outlets"]:
        async with serving(self.queue.answer) as self.queue_url, serving(self.stream.answer) as self.stream_url:
            yield self


class IngestTask:
    """`python -m ingest` as a process of its own, which knows its queue by a `url` of its own.

    As a context, it leaves none behind.
    """

    def __init__(self, aws: Aws, outlets: Outlets, node_urls: list[str], log: Path, **settings: str) -> None:
        self._ports = ExitStack()
        self._health_port = self._ports.enter_context(reserved_port())
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLARION_"))},
            **aws.variables,
            "CLARION_NODES": json.dumps({STATEMENTS: node_urls}),
            "AWS_ENDPOINT_URL_SQS": outlets.queue_url,
            "AWS_ENDPOINT_URL_FIREHOSE": outlets.stream_url,
            "CLARION_OVERSIZE_BUCKET": "soak",
            "CLARION_EVENTS_STREAM": "soak",
            "CLARION_LATE_EVENTS_QUEUE_URL": f"{outlets.queue_url}{LATE_EVENTS}",
            "CLARION_TABLE_PREFIX": "soak-",
            "CLARION_HEALTH_PORT": str(self._health_port),
            **{f"CLARION_{name.upper()}": value for name, value in settings.items()},
        }
        self._outlets = outlets
        self.url = ""
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process and self._process.returncode is None:
            await self.end(signal.SIGKILL)
        self._ports.close()

    async def start(self) -> None:
        with self._log.open("ab") as log:
            command = (sys.executable, "-m", "ingest")
            self.url = f"{self._outlets.queue_url}/{uuid4()}"
            environment = self._environment | {"CLARION_ENVELOPES_QUEUE_URL": self.url}
            self._process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        if not self._process:
            raise RuntimeError("not started")
        return self._process.pid

    async def end(self, number: signal.Signals) -> int:
        if not self._process:
            raise RuntimeError("not started")
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        return await self._process.wait()

    def log_lines(self) -> Iterator[dict[str, Any]]:
        """The lines of its log so far."""
        for line in self._log.read_text().splitlines():
            with suppress(ValueError):
                yield json.loads(line)

    async def logs(self, message: str, *, times: int = 1) -> None:
        """Wait for so many such lines."""
        while sum(line.get("message") == message for line in self.log_lines()) < times:
            if not self._process or self._process.returncode is not None:
                raise AssertionError(f"ingest ended before it logged {message!r}: {self._log.read_text()[-2_000:]}")
            await asyncio.sleep(0.1)

    def owns_shards(self) -> bool:
        """As its health page says; False if it doesn't answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._health_port}/", timeout=1) as answer:
                return bool(json.load(answer)["shards"])
        except OSError:
            return False

    def peak_megabytes(self) -> float:
        (line,) = [one for one in Path(f"/proc/{self.pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
        return int(line.split()[1]) / 1024


class SoakedNodes:
    """Nodes that gossip without delay: each holds every statement, through being killed and started again."""

    def __init__(self, count: int) -> None:
        self._statements: list[bytes] = []
        self._nodes = [StatementStore(relay_unverified=True) for _ in range(count)]
        self._up = set(range(count))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[list[str]]:
        for node in self._nodes:
            await node.__aenter__()
        try:
            yield [node.url for node in self._nodes]
        finally:
            for index in tuple(self._up):
                await self.kill(index)

    async def publish(self, statement: bytes) -> None:
        self._statements.append(statement)
        for index in tuple(self._up):
            await self._nodes[index].inject(statement)

    async def kill(self, index: int) -> None:
        self._up.discard(index)
        await self._nodes[index].__aexit__(None, None, None)

    async def revive(self, index: int) -> None:
        node = StatementStore(relay_unverified=True, port=int(self._nodes[index].url.rpartition(":")[2]))
        self._nodes[index] = node
        await node.__aenter__()
        for statement in self._statements:  # grows meanwhile
            await node.inject(statement)
        self._up.add(index)


async def at_rate(per_second: int, seconds: float, act: Callable[[int], Any]) -> int:
    """Call `act` with 0, 1, 2 … evenly for so long, or as fast as this machine can; return how often."""
    began = time.monotonic()
    count = 0
    while (elapsed := time.monotonic() - began) < seconds:
        behind = count < elapsed * per_second
        if behind:
            await act(count)
            count += 1
        await asyncio.sleep(0 if behind else 0.005)
    return count


async def wait_until_complete(queue: QueueStandIn, expected: int, progress: SoakProgress) -> None:
    """Wait until all were received, or nothing more has come for a while."""
    progress.note(f"sent {expected:,}; waiting for what is on its way")
    last, since = -1, time.monotonic()
    while len(queue.received) < expected or time.monotonic() - since < 3:
        progress.note_now_and_then(f"received {len(queue.received):,} of {expected:,}")
        total = queue.received.total()
        if total != last:
            last, since = total, time.monotonic()
        if time.monotonic() - since > GRACE_SECONDS:
            return
        await asyncio.sleep(0.2)


@dataclass
class Troubles:
    """Kills a task at random moments and starts it again; now and then, pauses one for longer than its lease."""

    tasks: list[IngestTask]
    queue: QueueStandIn
    progress: SoakProgress
    killed: int = 0
    paused: int = 0
    take_overs: list[float] = field(default_factory=list)
    """Seconds from the blow until another task sent the first statement of the shards that the one had."""

    async def go_on(self, until: float) -> None:
        chance = random.Random()  # noqa: S311 - moments, not secrets
        while True:
            await asyncio.sleep(chance.uniform(SECONDS / 12, SECONDS / 4))
            if time.monotonic() > until:
                return
            for task in chance.sample(self.tasks, len(self.tasks)):
                if await asyncio.to_thread(task.owns_shards):
                    await self._strike(task, chance.uniform(0.5, 2))
                    break

    async def _strike(self, task: IngestTask, away: float) -> None:
        began, taken_over = time.monotonic(), self.queue.taken_over_from(task.url)
        if self.killed and not self.paused:
            self.progress.note(f"pausing a task for {PAUSE_SECONDS} s")
            self.paused += 1
            os.kill(task.pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE_SECONDS)
            os.kill(task.pid, signal.SIGCONT)
        else:
            self.progress.note("killing a task")
            self.killed += 1
            await task.end(signal.SIGKILL)
            await asyncio.sleep(away)
            await task.start()
        try:
            self.take_overs.append(await asyncio.wait_for(taken_over, GRACE_SECONDS) - began)
        except TimeoutError as error:
            raise AssertionError(f"nobody took over within {GRACE_SECONDS} s") from error


async def kill_a_node(network: SoakedNodes) -> None:
    await asyncio.sleep(SECONDS / 3)
    await network.kill(0)
    await asyncio.sleep(SECONDS / 6)
    await network.revive(0)


async def tasks_killed(aws: Aws, folder: Path, progress: SoakProgress) -> str:
    network = SoakedNodes(2)
    async with network.running() as urls, Outlets().running() as outlets, AsyncExitStack() as stack:
        queue = outlets.queue
        tasks = [IngestTask(aws, outlets, urls, folder / f"ingest-{number}.log") for number in range(2)]
        for task in tasks:
            await stack.enter_async_context(task)
            await task.start()
            await task.logs("node replayed", times=2)
        troubles = Troubles(tasks, queue, progress)
        striking = asyncio.create_task(troubles.go_on(time.monotonic() + SECONDS))
        node = asyncio.create_task(kill_a_node(network))

        async def publish(number: int) -> None:
            progress.note_now_and_then(f"sent {number:,}, received {len(queue.received):,}")
            await network.publish(make_statement(number))

        sent = await at_rate(RATE, SECONDS, publish)
        await asyncio.gather(striking, node)
        await wait_until_complete(queue, sent, progress)
        progress.note("ending the tasks")
        codes = [await task.end(signal.SIGTERM) for task in tasks]
    progress.note(f"counting {len(queue.messages):,} messages")
    lost = sum(make_statement(number) not in queue.received for number in range(sent))
    strange = len(queue.received) - (sent - lost)
    unrecorded = len(queue.received.keys() - outlets.stream.recorded - queue.late)
    duplicates = len(queue.messages) - len(queue.received)
    repeated = [raw for raw, count in queue.received.items() if count > 1]
    claimed = {*random.sample(repeated, min(CLAIMED, len(repeated)))}
    twice = handled_twice([message for message in queue.messages if message.raw in claimed])
    take_over = max(troubles.take_overs, default=0.0)
    latencies = sorted(queue.latencies)
    figures = (
        f"tasks killed {troubles.killed} times and paused {troubles.paused}, one of two nodes killed once:"
        f" sent {sent:,} in {SECONDS} s, lost {lost}, duplicates before dedup {duplicates:,},"
        f" of {len(claimed):,} statements that came again handled twice {twice},"
        f" sent twice by the same task {queue.second_receipts}, pushed and unknown to the lake {unrecorded},"
        f" longest take-over {take_over:.1f} s,"
        f" latency to the queue p50 {latencies[len(latencies) // 2]} ms, p99 {latencies[len(latencies) * 99 // 100]} ms,"
        f" worst {latencies[-1]} ms"
    )
    wrong = lost or strange or twice or queue.second_receipts or unrecorded or codes != [0, 0]
    if wrong or not (troubles.killed and troubles.paused and duplicates) or take_over > TAKE_OVER_SECONDS:
        raise AssertionError(f"{figures}; strange {strange}, exit codes {codes}")
    return figures


def handled_twice(messages: Sequence[ObservedMessage]) -> int:
    """How often match would push what it has pushed, for a subscription that wants all: by what gets through its claim.

    What came only once need not be among `messages`.
    """
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name="us-east-1")
        dynamodb.create_table(
            TableName=PushRecord.Meta.table_name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "subscription_id", "KeyType": "HASH"},
                {"AttributeName": "envelope_id", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": "envelope_id", "AttributeType": "B"},
                {"AttributeName": "subscription_id", "AttributeType": "S"},
            ],
        )
        claims = Claims(dynamodb)
        passed = sum(claims.take(claim(message)) is not Claim.TAKEN for message in messages)
    return passed - len({message.raw for message in messages})


def claim(message: ObservedMessage) -> ClaimRequest:
    statement = decode(message.raw or b"")
    now = now_ms()
    return ClaimRequest(
        "soak",
        statement.hash,
        receipt=str(message.receipt),
        claimed_at=now,
        ttl=lasts_until(statement.expires_at, now // 1000),
    )


class ReplayedNode:
    """Replays a million statements, in frames made before, and those that were added."""

    def __init__(self, count: int, progress: SoakProgress) -> None:
        self._frames: list[str] = []
        remaining = count
        for numbers in batched(range(count), 10_000, strict=False):
            progress.note_now_and_then(f"{remaining:,} statements still to be signed")
            remaining -= len(numbers)
            self._frames.append(self._frame([make_statement(number) for number in numbers], remaining))

    def add(self, *statements: bytes) -> None:
        """Put them in front, so that the frames' count still ends at 0."""
        self._frames.insert(0, self._frame(list(statements), REPLAYED))

    @staticmethod
    def _frame(statements: list[bytes], remaining: int) -> str:
        data = {"statements": ["0x" + raw.hex() for raw in statements], "remaining": remaining}
        params = {"subscription": 1, "result": {"event": "newStatements", "data": data}}
        return json.dumps({"jsonrpc": "2.0", "method": "statement_statement", "params": params})

    async def converse(self, socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            async for text in socket:
                asked = json.loads(text)
                methods = {"methods": ["statement_subscribeStatement"]}
                result = methods if asked["method"] == "rpc_methods" else "subscription"
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
                if result == "subscription":
                    for frame in self._frames:
                        await socket.send(frame)


async def statements_replayed(aws: Aws, folder: Path, progress: SoakProgress) -> str:
    node = ReplayedNode(REPLAYED, progress)
    arrived = [make_statement(REPLAYED + number) for number in range(100)]
    async with serve(node.converse, "127.0.0.1", 0, compression=None) as server, Outlets().running() as outlets:
        queue = outlets.queue
        port = next(iter(server.sockets)).getsockname()[1]
        log = folder / "replay.log"
        async with IngestTask(aws, outlets, [f"ws://127.0.0.1:{port}"], log, state_prefix="replay/") as task:
            progress.note("replaying to a new task")
            seconds, megabytes = await replay_once(task, 1)
            await task.logs("record saved")
            await task.end(signal.SIGTERM)
            pushed_first = len(queue.received)
            node.add(*arrived)
            progress.note("replaying to one that starts from the record")
            again, restored_megabytes = await replay_once(task, 2)
            await wait_until_complete(queue, len(arrived), progress)
            await task.end(signal.SIGTERM)
    figures = (
        f"replay of {REPLAYED:,} statements: pushed {pushed_first}, in {seconds:.1f} s, peak {megabytes:.0f} MB;"
        f" after a restart from the record {again:.1f} s, peak {restored_megabytes:.0f} MB,"
        f" pushed {len(queue.received)} of {len(arrived)} that had arrived meanwhile"
    )
    if pushed_first or set(queue.received) != set(arrived):
        raise AssertionError(figures)
    return figures


async def replay_once(task: IngestTask, times: int) -> tuple[float, float]:
    await task.start()
    await task.logs("node subscribed", times=times)
    began = time.monotonic()
    await task.logs("node replayed", times=times)
    return time.monotonic() - began, task.peak_megabytes()


async def rules_added(aws: Aws, folder: Path, progress: SoakProgress) -> str:
    """Each rule is written the moment before its statement; other traffic that no rule wants flows around it."""
    network = SoakedNodes(1)
    wanted: list[bytes] = []

    async def write_and_publish(number: int) -> None:
        keypair = sr25519.pair_from_seed(blake2b(number.to_bytes(8), digest_size=32).digest())
        progress.note_now_and_then(f"wrote {number:,} rules")
        await asyncio.to_thread(aws.write_rule, keypair[0], TOPIC)
        wanted.append(make_statement(number, keypair=keypair))
        await network.publish(wanted[-1])

    async with network.running() as urls, Outlets().running() as outlets:
        queue = outlets.queue
        unwanted = at_rate(RATE // 2, SECONDS / 2, lambda number: network.publish(make_statement(number, topic=SENDER)))
        async with IngestTask(aws, outlets, urls, folder / "rules.log", state_prefix="rules/") as task:
            await task.start()
            await task.logs("node replayed")
            _, others = await asyncio.gather(at_rate(20, SECONDS / 2, write_and_publish), unwanted)
            await wait_until_complete(queue, len(wanted), progress)
            await task.end(signal.SIGTERM)
    missed = sum(statement not in queue.received for statement in wanted)
    extra = len(queue.received) - (len(wanted) - missed)
    figures = (
        f"{len(wanted)} rules each written just before its statement: missed {missed};"
        f" of {others:,} unmatched statements meanwhile forwarded {extra}; worst latency {max(queue.latencies)} ms"
    )
    if missed or extra:
        raise AssertionError(figures)
    return figures


SCENARIOS = {"tasks": tasks_killed, "replay": statements_replayed, "rules": rules_added}


async def run(name: str, emulator: Emulator) -> str:
    limit, progress = SECONDS + AROUND_SECONDS, SoakProgress()
    try:
        async with asyncio.timeout(limit):
            return await SCENARIOS[name](Aws(emulator), emulator.folder, progress)
    except TimeoutError as error:
        raise AssertionError(f"{name} was not over after {limit} s; at last: {progress.latest}") from error


def main(names: list[str]) -> None:
    figures = []
    for name in names or SCENARIOS:
        print(f"» {name}", flush=True)
        with started(f"soak-{name}") as emulator:
            figures.append(asyncio.run(run(name, emulator)))
        print(f"  {figures[-1]}", flush=True)
    print(f"soak: {' | '.join(figures)}")


if __name__ == "__main__":
    main(sys.argv[1:])
