"""One worker of match with its tables and queues, and those who send and receive through it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID, uuid4

import boto3
import sr25519

from clarion import tables
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.messages import EnvelopeMessage, MatchMessage, PushMessage, read_match_message
from clarion.networks import STATEMENTS, Rule, network
from clarion.networks.statements.codec import Statement, encode
from clarion.networks.statements.payload import StatementBody
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import Keypair, sign
from clarion.tables import Subscription, pair_scope, rule_key
from match.admission import Admission, AdmissionResult, Notification
from match.failures import split_failures
from match.settings import MatchSettings
from match.windows import Pair
from match.worker import MatchClients, MatchWorker

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

NOW = 1_800_000_000_000
NEVER = 0xFFFF_FFFF
TOPIC = b"\x01" * 32
PREFIX = "clarion-test-"
PAGE = 10
OTHER = b"\x02" * 32
NOT_SHOWN_YET = b"\x01" + bytes(64)
"""A key in the index that nobody looks up."""


def received(message_id: str, body: str, *, handle: str = "a-handle", receives: int = 1) -> dict[str, Any]:
    """A message as Lambda hands it over."""
    attributes = {"ApproximateReceiveCount": str(receives)}
    return {"messageId": message_id, "body": body, "receiptHandle": handle, "attributes": attributes}


class InTurn(Executor):
    """Does one thing after the other, so that the calls come in the same order in every run."""

    def map(self, fn: Callable[..., Any], *tasks: Iterable[Any], **_: object) -> Iterator[Any]:
        return map(fn, *tasks)


def credentials() -> dict[str, str]:
    """What the SDK wants to find in the environment, though the emulation ignores it."""
    return {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


def deploy() -> dict[str, str]:
    """Make what match needs; returns the environment that says where it is."""
    tables.bind(PREFIX)
    for model in tables.MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    for bucket in ("lake", "oversize"):
        boto3.client("s3").create_bucket(Bucket=bucket)
    lake = {"RoleARN": "arn:aws:iam::123456789012:role/lake", "BucketARN": "arn:aws:s3:::lake"}
    boto3.client("firehose").create_delivery_stream(
        DeliveryStreamName="lake",
        ExtendedS3DestinationConfiguration=lake,  # type: ignore[arg-type] # the stub's TypedDict
    )
    names = (*Channel, "envelopes", "pages", "late_events")
    queues = {name: boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in names}
    return {
        "CLARION_TABLE_PREFIX": PREFIX,
        "CLARION_EVENTS_STREAM": "lake",
        "CLARION_OVERSIZE_BUCKET": "oversize",
        "CLARION_FAN_OUT_PAGE": str(PAGE),
        "CLARION_QUEUE_URL": queues.pop("envelopes"),
        **{f"CLARION_{name.upper()}_QUEUE_URL": url for name, url in queues.items()},
    }


def lake_events() -> list[dict[str, Any]]:
    """What came to the lake since the last look."""
    s3 = boto3.client("s3")
    lines: list[str] = []
    for found in s3.list_objects_v2(Bucket="lake").get("Contents", ()):
        lines += s3.get_object(Bucket="lake", Key=found["Key"])["Body"].read().decode().splitlines()
        s3.delete_object(Bucket="lake", Key=found["Key"])
    return [json.loads(line) for line in lines]


class Clock:
    """Moves only by `advance`; UNIX milliseconds."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


@dataclass(frozen=True)
class Sender:
    """One who signs statements."""

    keypair: Keypair = field(default_factory=lambda: sr25519.pair_from_seed(uuid4().bytes * 2))

    @property
    def key(self) -> bytes:
        return self.keypair[0]

    def states(self, *topics: bytes, data: bytes | None = b"sealed", expires_at: int = NEVER) -> Statement:
        return sign(Statement(expires_at << 32, topics or (TOPIC,), data), self.keypair)


@dataclass(frozen=True)
class Queues:
    """The queues as their consumers see them."""

    urls: Mapping[str, str]
    sqs: "SQSClient" = field(default_factory=lambda: boto3.client("sqs"))

    @classmethod
    def of(cls, settings: MatchSettings) -> Self:
        pushes = {str(name): url for name, url in settings.push_queues.items()}
        return cls(pushes | {"envelopes": settings.queue_url, "pages": settings.pages_queue_url})

    def drain(self, name: str) -> list[str]:
        bodies = []
        while found := self.sqs.receive_message(QueueUrl=self.urls[name], MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                bodies.append(message["Body"])
                self.sqs.delete_message(QueueUrl=self.urls[name], ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def pushes(self) -> list[PushMessage]:
        return [PushMessage.model_validate_json(body) for name in Channel for body in self.drain(name)]


@dataclass
class Scene:
    """Has one worker; a second scene with the same sender has another."""

    settings: MatchSettings
    clients: MatchClients
    clock: Clock = field(default_factory=Clock)
    sender: Sender = field(default_factory=Sender)

    def __post_init__(self) -> None:
        self.worker = MatchWorker.open(self.settings, self.clients, self.clock)
        self.queues = Queues.of(self.settings)

    def elsewhere(self) -> "Scene":
        """The same, with another worker."""
        return Scene(self.settings, self.clients, self.clock, self.sender)

    def subscribe(
        self,
        *topics: bytes,
        subscription_id: str | None = None,
        client_id: bytes | None = None,
        channel: Channel = Channel.APNS,
        status: SubscriptionStatus = SubscriptionStatus.ACTIVE,
        generation: int = 1,
        rules_generation: int = 1,
        condition: bytes = b"",
    ) -> Subscription:
        """A subscription as the API makes it, that wants the sender's statements."""
        rules = [Rule(key_of(self.sender.key, topic), condition) for topic in topics or (TOPIC,)]
        return self.subscribe_to(
            STATEMENTS,
            rules,
            subscription_id=subscription_id,
            client_id=client_id,
            channel=channel,
            status=status,
            generation=generation,
            rules_generation=rules_generation,
        )

    def subscribe_to(
        self,
        name: str,
        rules: Iterable[Rule],
        *,
        subscription_id: str | None = None,
        client_id: bytes | None = None,
        channel: Channel = Channel.APNS,
        status: SubscriptionStatus = SubscriptionStatus.ACTIVE,
        generation: int = 1,
        rules_generation: int = 1,
    ) -> Subscription:
        """A subscription to the network of that name."""
        subscription = Subscription(
            subscription_id or str(uuid4()),
            client_id=uuid4().bytes * 2 if client_id is None else client_id,
            network=name,
            channel=channel.value,
            token="a-token",
            status=status.value,
            generation=generation,
            rule_count=0,
            created_at=self.clock(),
            updated_at=self.clock(),
        )
        subscription.save()
        for rule in rules:
            self.add_rule(subscription.subscription_id, rule, rules_generation)
        return subscription

    def add_rule(self, subscription_id: str, rule: Rule, generation: int = 1, *, seen: bool = True) -> None:
        """The index doesn't show one that is not `seen` yet."""
        key = rule.key if seen else NOT_SHOWN_YET
        row_key = rule_key(generation, rule.key)
        tables.RuleRow(subscription_id, row_key, key=key, condition=rule.condition or None).save()

    def key(self, topic: bytes = TOPIC) -> bytes:
        """What a rule for the sender's statements on that topic names."""
        return key_of(self.sender.key, topic)

    def pair(self, client_id: bytes) -> bytes:
        """What the window of the sender and that client is named by."""
        return pair_scope(network(STATEMENTS).number, self.sender.key, client_id)

    def observe(self, statement: Statement, receipt: UUID | None = None) -> EnvelopeMessage:
        """What ingest makes of a statement that it was shown."""
        return self.show(STATEMENTS, encode(statement), receipt)

    def show(self, name: str, raw: bytes, receipt: UUID | None = None) -> EnvelopeMessage:
        """What ingest makes of a raw envelope of any network."""
        return EnvelopeMessage(network=name, receipt=receipt or uuid4(), observed_at=self.clock(), raw=raw)

    def lost(self, location: str = "not-there") -> EnvelopeMessage:
        """A large envelope, which S3 has at that place, or has not."""
        return EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=self.clock(), location=location)

    def observe_new(self, count: int) -> list[EnvelopeMessage]:
        return [self.observe(self.sender.states()) for _ in range(count)]

    def take(self, *messages: MatchMessage | str) -> set[int]:
        """Hand over a batch as SQS would; returns the positions of those to be received again."""
        bodies = [message if isinstance(message, str) else message.to_json() for message in messages]
        records = [received(str(number), body) for number, body in enumerate(bodies)]
        return {int(message_id) for message_id in self.worker.handle(records)}

    def pushes(self) -> list[PushMessage]:
        """Those queued since the last look."""
        return self.queues.pushes()

    def again(self) -> list[MatchMessage]:
        """What match has sent itself since the last look, delays aside."""
        return [read_match_message(body) for name in ("envelopes", "pages") for body in self.queues.drain(name)]


def statement_of(push: PushMessage) -> StatementBody:
    """What a push carries of its statement."""
    assert isinstance(push.body, StatementBody)
    return push.body


def decide(admission: Admission, notifications: Sequence[Notification]) -> list[AdmissionResult]:
    """On notifications of one group, as a batch of match's does."""
    group = admission.group(notifications[0])
    looked = admission.look({group: notifications}) if isinstance(group, Pair) else {}
    windows, _ = split_failures(looked)
    return admission.decide(group, notifications, windows)
