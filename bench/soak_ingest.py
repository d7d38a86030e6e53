"""Ingest against what happens in production, for minutes: real processes, kill -9, the emulator's AWS, real WebSockets.

python -m bench.soak_ingest [leader] [standing] [rules]      all three by default; SOAK_SECONDS=60
"""

import asyncio
import json
import os
import random
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b, md5
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen
from uuid import UUID, uuid4

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from clarion.messages import StatementMessage
from clarion.statement import Proof, ProofKind, Statement, encode
from clarion.tables import rule_key
from local.emulator import Emulator, started
from local.store import StatementStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SECONDS = int(os.environ.get("SOAK_SECONDS", "60"))
RATE = 1000
SENDER, TOPIC = b"\x5e" * 32, b"\x70" * 32
STANDING = 1_000_000
GRACE_SECONDS = 40
PAUSE_SECONDS = 14
NEVER = 0xFFFF_FFFF << 32


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_statement(number: int, *, sender: bytes = SENDER, topic: bytes = TOPIC) -> bytes:
    proof = Proof(ProofKind.SR25519, b"\x51" * 64, sender)
    return encode(Statement(NEVER, (topic,), number.to_bytes(8) * 8, proof=proof))


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
        item: dict[str, Any] = {"subscription_id": {"S": "soak"}, "rule_key": {"B": rule_key(1, sender, topic)}}
        self.dynamodb().put_item(TableName="soak-rules", Item=item | {"sender_topic": {"B": sender + topic}})

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


class Queue:
    """A stand-in for SQS that speaks its SendMessageBatch, since the emulator's slows to a crawl as it deepens.

    It keeps what it took, by statement: what another process sends again is a duplicate that match drops, but one
    process, told apart by its queue's URL, must stay with one receipt. Of twenty batches it refuses one, and of
    another takes only half.
    """

    def __init__(self) -> None:
        self.received: Counter[bytes] = Counter()
        self.latencies: list[int] = []
        self.second_receipts = 0
        self._receipts: dict[tuple[str, bytes], UUID] = {}
        self._batches = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0, limit=1 << 21)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                status, answer = self._take(json.loads(await reader.readexactly(length)))
                body = json.dumps(answer).encode()
                start = f"HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}"
                writer.write(start.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    def _take(self, request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        entries: list[dict[str, str]] = request["Entries"]
        self._batches += 1
        if self._batches % 20 == 5:
            return "400 Bad Request", {"__type": "com.amazonaws.sqs#RequestThrottled"}
        taken = entries[: len(entries) // 2] if self._batches % 20 == 15 else entries
        failed = entries[len(taken) :]
        for entry in taken:
            self._keep(request["QueueUrl"], StatementMessage.model_validate_json(entry["MessageBody"]))
        answer = [{"Id": entry["Id"], "MessageId": entry["Id"], "MD5OfMessageBody": _md5(entry)} for entry in taken]
        return "200 OK", {
            "Successful": answer,
            "Failed": [{"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in failed],
        }

    def _keep(self, sender: str, message: StatementMessage) -> None:
        statement = message.statement or b""
        self.second_receipts += self._receipts.setdefault((sender, statement), message.receipt) != message.receipt
        if not self.received[statement]:
            self.latencies.append(time.time_ns() // 1_000_000 - message.observed_at)
        self.received[statement] += 1


def _md5(entry: dict[str, str]) -> str:
    return md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest()


class IngestTask:
    """`python -m ingest` as a process of its own."""

    def __init__(self, aws: Aws, queue_url: str, node_urls: list[str], log: Path, **settings: str) -> None:
        self._health_port = free_port()
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CLARION_"))},
            **aws.variables,
            "CLARION_NODE_URLS": ",".join(node_urls),
            "AWS_ENDPOINT_URL_SQS": queue_url,
            "CLARION_OVERSIZE_BUCKET": "soak",
            "CLARION_TABLE_PREFIX": "soak-",
            "CLARION_HEALTH_PORT": str(self._health_port),
            **{f"CLARION_{name.upper()}": value for name, value in settings.items()},
        }
        self._queue_url = queue_url
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            command = (sys.executable, "-m", "ingest")
            url = {"CLARION_STATEMENTS_QUEUE_URL": f"{self._queue_url}/{uuid4()}"}
            self._process = await asyncio.create_subprocess_exec(
                *command, env=self._environment | url, stdout=log, stderr=log
            )

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

    def told(self) -> Iterator[dict[str, Any]]:
        """The lines of its log so far."""
        for line in self._log.read_text().splitlines():
            with suppress(ValueError):
                yield json.loads(line)

    async def says(self, message: str, *, times: int = 1) -> dict[str, Any]:
        """Wait for a line."""
        while True:
            lines = [line for line in self.told() if line.get("message") == message]
            if len(lines) >= times:
                return lines[times - 1]
            await asyncio.sleep(0.1)

    def leads(self) -> bool:
        """As its health page says; False if it doesn't answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._health_port}/", timeout=1) as answer:
                return bool(json.load(answer)["leading"])
        except OSError:
            return False

    def peak_megabytes(self) -> float:
        (line,) = [one for one in Path(f"/proc/{self.pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
        return int(line.split()[1]) / 1024


class Network:
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
    """Call `act` with 0, 1, 2 … evenly for so long; return how often."""
    began = time.monotonic()
    count = 0
    while (elapsed := time.monotonic() - began) < seconds:
        while count < elapsed * per_second:
            await act(count)
            count += 1
        await asyncio.sleep(0.005)
    return count


async def settle(queue: Queue, expected: int) -> None:
    """Wait until all were received, or nothing more has come for a while."""
    last, since = -1, time.monotonic()
    while len(queue.received) < expected or time.monotonic() - since < 3:
        total = queue.received.total()
        if total != last:
            last, since = total, time.monotonic()
        if time.monotonic() - since > GRACE_SECONDS:
            return
        await asyncio.sleep(0.2)


async def trouble_leaders(tasks: list[IngestTask], until: float, kills: Counter[str]) -> None:
    """Kill the leader at random moments and start it again; now and then, pause it for longer than its lease."""
    chance = random.Random()  # noqa: S311 - moments, not secrets
    while True:
        await asyncio.sleep(chance.uniform(5, 15))
        if time.monotonic() > until:
            return
        leaders = [task for task in tasks if await asyncio.to_thread(task.leads)]
        if not leaders:
            continue
        if kills["killed"] and not kills["paused"]:
            kills["paused"] += 1
            os.kill(leaders[0].pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE_SECONDS)
            os.kill(leaders[0].pid, signal.SIGCONT)
        else:
            kills["killed"] += 1
            await leaders[0].end(signal.SIGKILL)
            await asyncio.sleep(chance.uniform(0.5, 2))
            await leaders[0].start()


async def kill_a_node(network: Network) -> None:
    await asyncio.sleep(SECONDS / 3)
    await network.kill(0)
    await asyncio.sleep(SECONDS / 6)
    await network.revive(0)


async def leader_killed(aws: Aws, folder: Path) -> str:
    network, queue = Network(2), Queue()
    kills: Counter[str] = Counter()
    async with network.running() as urls, queue.running() as queue_url:
        tasks = [IngestTask(aws, queue_url, urls, folder / f"ingest-{number}.log") for number in range(2)]
        for task in tasks:
            await task.start()
            await task.says("node replayed", times=2)
        killing = asyncio.create_task(trouble_leaders(tasks, time.monotonic() + SECONDS, kills))
        node = asyncio.create_task(kill_a_node(network))
        sent = await at_rate(RATE, SECONDS, lambda number: network.publish(make_statement(number)))
        await asyncio.gather(killing, node)
        await settle(queue, sent)
        codes = [await task.end(signal.SIGTERM) for task in tasks]
    lost = sum(make_statement(number) not in queue.received for number in range(sent))
    strange = len(queue.received) - (sent - lost)
    latencies = sorted(queue.latencies)
    figures = (
        f"leader killed {kills['killed']} times and paused {kills['paused']}, one of two nodes killed once,"
        f" in {sent:,} statements in {SECONDS} s:"
        f" lost {lost}, sent twice by the same leader {queue.second_receipts},"
        f" repeated by the next {queue.received.total() - len(queue.received):,}, for match to drop,"
        f" latency to the queue p50 {latencies[len(latencies) // 2]} ms, p99 {latencies[len(latencies) * 99 // 100]} ms,"
        f" worst {latencies[-1]} ms"
    )
    if lost or strange or queue.second_receipts or codes != [0, 0] or not kills["killed"]:
        raise AssertionError(f"{figures}; strange {strange}, exit codes {codes}")
    return figures


class StandingNode:
    """Holds a million standing statements, in frames made before, and those that were added."""

    def __init__(self, count: int) -> None:
        self._frames: list[str] = []
        remaining = count
        for numbers in batched(range(count), 10_000, strict=False):
            remaining -= len(numbers)
            self._frames.append(self._frame([make_statement(number) for number in numbers], remaining))

    def add(self, *statements: bytes) -> None:
        """Put them in front, so that the frames' count still ends at 0."""
        self._frames.insert(0, self._frame(list(statements), STANDING))

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


async def standing_replayed(aws: Aws, folder: Path) -> str:
    node, queue = StandingNode(STANDING), Queue()
    arrived = [make_statement(STANDING + number) for number in range(100)]
    async with serve(node.converse, "127.0.0.1", 0, compression=None) as server, queue.running() as queue_url:
        port = next(iter(server.sockets)).getsockname()[1]
        task = IngestTask(aws, queue_url, [f"ws://127.0.0.1:{port}"], folder / "standing.log", state_prefix="standing/")
        seconds, megabytes = await replay_once(task, 1)
        await task.says("record saved")
        await task.end(signal.SIGTERM)
        pushed_first = len(queue.received)
        node.add(*arrived)
        again, restored_megabytes = await replay_once(task, 2)
        await settle(queue, len(arrived))
        await task.end(signal.SIGTERM)
    figures = (
        f"replay of {STANDING:,} standing statements: pushed {pushed_first}, in {seconds:.1f} s, peak {megabytes:.0f} MB;"
        f" after a restart from the record {again:.1f} s, peak {restored_megabytes:.0f} MB,"
        f" pushed {len(queue.received)} of {len(arrived)} that had arrived meanwhile"
    )
    if pushed_first or set(queue.received) != set(arrived):
        raise AssertionError(figures)
    return figures


async def replay_once(task: IngestTask, times: int) -> tuple[float, float]:
    await task.start()
    await task.says("node subscribed", times=times)
    began = time.monotonic()
    await task.says("node replayed", times=times)
    return time.monotonic() - began, task.peak_megabytes()


async def rules_added(aws: Aws, folder: Path) -> str:
    """Each rule is written the moment before its statement; other traffic that no rule wants flows around it."""
    network, queue = Network(1), Queue()
    wanted: list[bytes] = []

    async def write_and_publish(number: int) -> None:
        sender = blake2b(number.to_bytes(8), digest_size=32).digest()
        await asyncio.to_thread(aws.write_rule, sender, TOPIC)
        wanted.append(make_statement(number, sender=sender))
        await network.publish(wanted[-1])

    async with network.running() as urls, queue.running() as queue_url:
        task = IngestTask(aws, queue_url, urls, folder / "rules.log", state_prefix="rules/")
        await task.start()
        await task.says("node replayed")
        unwanted = at_rate(RATE // 2, SECONDS / 2, lambda number: network.publish(make_statement(number, topic=SENDER)))
        _, others = await asyncio.gather(at_rate(20, SECONDS / 2, write_and_publish), unwanted)
        await settle(queue, len(wanted))
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


SCENARIOS = {"leader": leader_killed, "standing": standing_replayed, "rules": rules_added}


def main(names: list[str]) -> None:
    figures = []
    for name in names or SCENARIOS:
        print(f"» {name}", flush=True)
        with started(f"soak-{name}") as emulator:
            figures.append(asyncio.run(SCENARIOS[name](Aws(emulator), emulator.folder)))
        print(f"  {figures[-1]}", flush=True)
    print(f"soak: {' | '.join(figures)}")


if __name__ == "__main__":
    main(sys.argv[1:])
