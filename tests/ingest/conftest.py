import asyncio
import json
import logging
import os
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import UUID, uuid4

import pytest
import sr25519
from moto import mock_aws
from moto.backends import get_backend
from moto.core.botocore_stubber import BotocoreStubber
from websockets.asyncio.server import Server, ServerConnection, broadcast, serve

from clarion.events import EnvelopeObserved
from clarion.messages import MatchMessage, read_match_message
from clarion.metrics import Metric
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Proof, ProofKind, Statement, encode
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import sign
from clarion.tables import Lease, RuleRow, rule_key
from ingest.counts import Counts, OfNetwork
from ingest.delivery.destinations import EnvelopeQueue
from ingest.delivery.outgoing import Outgoing
from ingest.filter.rule_feed import StreamsClient
from ingest.lease.shards import Shards
from ingest.settings import IngestSettings
from ingest.task import Task
from ingest.wiring import AwsClients, wire
from tests.ports import reserve_port

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

REGION: Final = "eu-central-1"
KEYPAIR = sr25519.pair_from_seed(b"\x5e" * 32)
SENDER: Final[bytes] = KEYPAIR[0]
TOPIC = b"\x70" * 32


type MakeStatement = Callable[..., bytes]
type MakeSettings = Callable[..., IngestSettings]
type WriteRule = Callable[..., RuleRow]


def hexed(raw: bytes) -> str:
    return "0x" + raw.hex()


def node_faults(task: Task, network: str = STATEMENTS) -> int:
    """Since they were last recorded."""
    return task.counts[OfNetwork(Metric.NODE_FAULTS, network)]


class Dialect(StrEnum):
    CURRENT = "current"
    OLDER = "older"
    DRAFT = "draft"


class FakeNode:
    """An honest statement store node that checks nothing, in any of the three generations of the protocol."""

    def __init__(self, dialect: Dialect = Dialect.CURRENT, stored: list[bytes] | None = None) -> None:
        self.dialect = Dialect(dialect)
        self.stored = stored or []
        self.batch = 100
        self.subscriptions = 0
        self._subscribers: set[ServerConnection] = set()
        self._port = reserve_port(self)

    async def __aenter__(self) -> Self:
        self._server: Server = await serve(self._converse, "127.0.0.1", self._port, compression=None)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    async def subscribed(self) -> None:
        while not self._subscribers:
            await asyncio.sleep(0.005)

    def show(self, *statements: bytes) -> None:
        """Let new statements enter the store."""
        self.stored.extend(statements)
        for result in self._live([hexed(raw) for raw in statements]):
            broadcast(self._subscribers, self._notification(result))

    def go_mute(self) -> None:
        """Drop the subscribers without a word, as a node does with those that read too slowly."""
        self._subscribers.clear()

    async def hang_up(self) -> None:
        for socket in tuple(self._subscribers):
            await socket.close()

    async def _converse(self, socket: ServerConnection) -> None:
        try:
            async for text in socket:
                asked = json.loads(text)
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": self._answer(asked)}))
                if asked["method"] == self._last_method:
                    await self._replay(socket)
        finally:
            self._subscribers.discard(socket)

    @property
    def _last_method(self) -> str:
        return "statement_unstable_add_filter" if self.dialect is Dialect.DRAFT else "statement_subscribeStatement"

    def _answer(self, asked: dict[str, Any]) -> object:
        if asked["method"] == "rpc_methods":
            return {"methods": ["statement_submit", self._last_method, "statement_unstable_subscribe"]}
        if asked["method"] == self._last_method:
            assert asked["params"][-1] == "any"
        return "opaque"

    async def _replay(self, socket: ServerConnection) -> None:
        self.subscriptions += 1
        for result in self._replayed([hexed(raw) for raw in self.stored]):
            await socket.send(self._notification(result))
        self._subscribers.add(socket)

    def _replayed(self, statements: list[str]) -> Iterator[object]:
        if self.dialect is Dialect.OLDER:
            yield from statements
            return
        for start in range(0, len(statements), self.batch):
            batch = statements[start : start + self.batch]
            if self.dialect is Dialect.DRAFT:
                yield {"event": "replayStatements", "filterId": "f", "statements": batch}
            else:
                remaining = len(statements) - start - len(batch)
                yield {"event": "newStatements", "data": {"statements": batch, "remaining": remaining}}
        if self.dialect is Dialect.DRAFT:
            yield {"event": "replayDone", "filterId": "f"}
        elif not statements:
            yield {"event": "newStatements", "data": {"statements": [], "remaining": 0}}

    def _live(self, statements: list[str]) -> list[object]:
        match self.dialect:
            case Dialect.CURRENT:
                return [{"event": "newStatements", "data": {"statements": statements}}]
            case Dialect.OLDER:
                return list(statements)
            case Dialect.DRAFT:
                entries = [{"statement": text, "filterIds": ["f"]} for text in statements]
                return [{"event": "newStatements", "statements": entries}]

    def _notification(self, result: object) -> str:
        draft = self.dialect is Dialect.DRAFT
        method = "statement_unstable_subscribeEvent" if draft else "statement_statement"
        return json.dumps({"jsonrpc": "2.0", "method": method, "params": {"subscription": "opaque", "result": result}})


class ReadLake:
    """The lake's stream, and what was recorded by it."""

    def __init__(self, s3: "S3Client") -> None:
        self._s3 = s3

    def lines(self) -> list[EnvelopeObserved]:
        listed = self._s3.list_objects_v2(Bucket="lake").get("Contents", [])
        files = [self._s3.get_object(Bucket="lake", Key=found["Key"])["Body"].read() for found in listed]
        return [EnvelopeObserved.model_validate_json(line) for content in files for line in content.splitlines()]

    def receipts(self) -> set[UUID]:
        return {line.receipt for line in self.lines()}


class ReceivedQueue:
    """The queue of envelopes, and what has been read from it."""

    def __init__(self, sqs: "SQSClient", url: str) -> None:
        self._sqs = sqs
        self.url = url
        self.messages: list[MatchMessage] = []

    def read(self) -> list[MatchMessage]:
        """Everything that was ever sent."""
        while found := self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            self.messages.extend(read_match_message(one["Body"]) for one in found)
            entries = [{"Id": one["MessageId"], "ReceiptHandle": one["ReceiptHandle"]} for one in found]
            self._sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)  # type: ignore[arg-type] # TypedDict
        return self.messages

    async def holds(self, count: int) -> list[MatchMessage]:
        """Wait until `count` messages were sent, and return them."""
        while len(self.read()) < count:
            await asyncio.sleep(0.01)
        return self.messages

    def statements(self) -> list[bytes]:
        return sorted(message.raw or b"" for message in self.read())


@cache
def signed(number: int, *, sender: bytes = SENDER, topics: tuple[bytes, ...] = (TOPIC,), size: int = 8) -> bytes:
    """The same bytes each time, though signing is random. Whoever is not `SENDER` has not signed."""
    statement = Statement(expiry=2**63, topics=topics, data=number.to_bytes(size))
    forged = statement._replace(proof=Proof(ProofKind.SR25519, b"\x51" * 64, sender))
    return encode(sign(statement, KEYPAIR) if sender == SENDER else forged)


def alone() -> Shards:
    """Of a task that works alone: all are its own."""
    shards = Shards("me")
    shards.divide(["me"])
    return shards


def make_outgoing(raw: bytes = b"raw", *, observed_at: int = 1_700_000_000_000, **others: Any) -> Outgoing:
    """What is on its way to the queue; its fingerprint is 1 unless given."""
    known = {"network": STATEMENTS, "receipt": uuid4(), "fingerprint": 1, **others}
    return Outgoing(observed_at=observed_at, raw=raw, **known)


@pytest.fixture
def make_statement() -> MakeStatement:
    return signed


@pytest.fixture
def counts() -> Counts:
    return Counter()


@pytest.fixture
def make_node() -> type[FakeNode]:
    return FakeNode


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    async with FakeNode() as honest:
        yield honest


def one_at_a_time[**Arguments, R](call: Callable[Arguments, R]) -> Callable[Arguments, R]:
    """A task calls AWS from many threads, but moto loses what one adds to a dict or a list while another goes through it."""
    turn = RLock()

    def wait_and_call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> R:
        with turn:
            return call(*args, **kwargs)

    return wait_and_call


@pytest.fixture(scope="module")
def sdk() -> Iterator[AwsClients]:
    """AwsClients of boto3, which take longer to make than most tests to run.

    For one module, as all fixtures of AWS are: the emulation and the tables' binding are the process's.
    """
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setattr(BotocoreStubber, "__call__", one_at_a_time(BotocoreStubber.__call__))
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_DEFAULT_REGION", REGION)
        patch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")  # moto knows DynamoDB Streams by its old address
        clients = AwsClients.from_environment("test-")
        yield replace(clients, streams=MotoStreams(clients.streams))


@pytest.fixture
def aws(sdk: AwsClients) -> None:
    """An empty account for each test."""
    for backend in ("dynamodb", "dynamodbstreams", "firehose", "s3", "sqs"):
        get_backend(backend).reset()


@pytest.fixture
def s3(aws: None, sdk: AwsClients) -> "S3Client":
    sdk.s3.create_bucket(Bucket="oversize", CreateBucketConfiguration={"LocationConstraint": REGION})
    return sdk.s3


async def saved(s3: "S3Client") -> None:
    """Wait for a base of the record."""
    while not any(one["Key"].endswith("base") for one in s3.list_objects_v2(Bucket="oversize").get("Contents", [])):
        await asyncio.sleep(0.01)


@pytest.fixture
def received(aws: None, sdk: AwsClients) -> ReceivedQueue:
    return ReceivedQueue(sdk.sqs, sdk.sqs.create_queue(QueueName="envelopes")["QueueUrl"])


@pytest.fixture
def lake(s3: "S3Client", sdk: AwsClients) -> ReadLake:
    s3.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": REGION})
    destination = {"RoleARN": "arn:aws:iam::123456789012:role/lake", "BucketARN": "arn:aws:s3:::lake"}
    sdk.firehose.create_delivery_stream(
        DeliveryStreamName="events",
        ExtendedS3DestinationConfiguration=destination,  # type: ignore[arg-type] # the stub's TypedDict
    )
    return ReadLake(s3)


@pytest.fixture
def queue(received: ReceivedQueue, s3: "S3Client", sdk: AwsClients) -> EnvelopeQueue:
    return EnvelopeQueue(sdk.sqs, received.url, s3, "oversize")


@pytest.fixture
def tables(aws: None, sdk: AwsClients) -> None:
    Lease.create_table(billing_mode="PAY_PER_REQUEST")
    sdk.dynamodb.create_table(
        TableName="test-rules",
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


@pytest.fixture
def write_rule(tables: None) -> WriteRule:
    def write(topic: bytes = TOPIC, generation: int = 1) -> RuleRow:
        """Of statements by `SENDER`."""
        key = key_of(SENDER, topic)
        rule = RuleRow("s", rule_key(generation, key), key=key)
        rule.save()
        return rule

    return write


@pytest.fixture
def rule(write_rule: WriteRule) -> None:
    """A rule that every statement of `make_statement` matches."""
    write_rule()


class MotoStreams:
    """moto's DynamoDB Streams, whose binary keys come encoded once too often."""

    def __init__(self, client: StreamsClient) -> None:
        self.describe_stream = client.describe_stream
        self.get_shard_iterator = client.get_shard_iterator
        self._get_records = client.get_records

    def get_records(self, **request: Any) -> dict[str, Any]:
        answer = self._get_records(**request)
        for record in answer["Records"]:
            key = record["dynamodb"]["Keys"]["rule_key"]
            key["B"] = b64decode(key["B"])
        return answer


@pytest.fixture
def clients(tables: None, s3: "S3Client", lake: ReadLake, sdk: AwsClients) -> AwsClients:
    return sdk


@pytest.fixture
def make_settings(received: ReceivedQueue) -> MakeSettings:
    """Settings under which everything happens within moments."""

    def make(*nodes: FakeNode, **others: object) -> IngestSettings:
        return IngestSettings.model_validate(
            {
                "nodes": {STATEMENTS: [node.url for node in nodes]},
                "envelopes_queue_url": received.url,
                "oversize_bucket": "oversize",
                "events_stream": "events",
                "late_events_queue_url": "late-events",
                "lake_linger_seconds": 0.01,
                "table_prefix": "test-",
                "rule_lag_seconds": 0.2,
                "initial_replay_seconds": 0.05,
                "stream_poll_seconds": 0.05,
                "stream_idle_seconds": 0.05,
                "lease_seconds": 0.8,
                "save_seconds": 0.1,
                "health_port": 0,
                **others,
            }
        )

    return make


type Run = Callable[..., AbstractAsyncContextManager[Task]]


@pytest.fixture
def running(clients: AwsClients) -> Run:
    """Runs the ingest task, some clients replaced by name, and ends it as SIGTERM does."""

    @asynccontextmanager
    async def run(settings: IngestSettings, **replaced: Any) -> AsyncIterator[Task]:
        stop = asyncio.Event()
        task = wire(settings, replace(clients, **replaced))
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            tasks.create_task(task.run(stop))
            try:
                yield task
            finally:
                stop.set()

    return run


@pytest.fixture(autouse=True)
def quiet_websockets() -> None:
    logging.getLogger("websockets").setLevel(logging.CRITICAL)
