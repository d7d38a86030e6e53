"""One match room with its tables and queues, and those who send and receive through it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import boto3
import sr25519

from clarion.decisions import NotifyType, PushType, SubscriptionStatus
from clarion.messages import PushMessage, StatementMessage
from clarion.signature import Keypair, sign
from clarion.statement import Statement, encode
from clarion.tables import Rule, Subscription, rule_key
from match.room import Room

NOW = 1_800_000_000_000
NEVER = 0xFFFF_FFFF
TOPIC = b"\x01" * 32
OTHER = b"\x02" * 32


class Clock:
    """Stands still until told otherwise; UNIX milliseconds."""

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

    def drain(self, name: str) -> list[str]:
        sqs = boto3.client("sqs")
        bodies = []
        while found := sqs.receive_message(QueueUrl=self.urls[name], MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                bodies.append(message["Body"])
                sqs.delete_message(QueueUrl=self.urls[name], ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def pushes(self) -> list[PushMessage]:
        return [PushMessage.model_validate_json(body) for name in NotifyType for body in self.drain(name)]


@dataclass(frozen=True)
class Scene:
    room: Room
    clock: Clock
    queues: Queues
    sender: Sender = field(default_factory=Sender)

    def subscribe(
        self,
        *topics: bytes,
        client_id: bytes | None = None,
        notify_type: NotifyType = NotifyType.APNS,
        status: SubscriptionStatus = SubscriptionStatus.ACTIVE,
        generation: int = 1,
        rules_generation: int = 1,
        push_type: PushType | None = None,
    ) -> Subscription:
        """A subscription as the API makes it, that wants the sender's statements."""
        subscription = Subscription(
            str(uuid4()),
            client_id=client_id or uuid4().bytes * 2,
            notify_type=notify_type.value,
            token="a-token",
            status=status.value,
            generation=generation,
            rule_count=len(topics),
            created_at=self.clock(),
            updated_at=self.clock(),
        )
        subscription.save()
        for topic in topics or (TOPIC,):
            key = rule_key(rules_generation, self.sender.key, topic)
            sender_topic = self.sender.key + topic
            Rule(subscription.subscription_id, key, sender_topic=sender_topic, push_type=push_type).save()
        return subscription

    def observe(self, statement: Statement, receipt: UUID | None = None) -> StatementMessage:
        """What ingest makes of a statement that it was shown."""
        return StatementMessage(receipt=receipt or uuid4(), observed_at=self.clock(), statement=encode(statement))

    def observe_new(self, count: int) -> list[StatementMessage]:
        return [self.observe(self.sender.states()) for _ in range(count)]

    def take(self, *messages: StatementMessage | str) -> set[int]:
        """Hand over a batch as SQS would; returns the positions of those that are to come again."""
        bodies = [message if isinstance(message, str) else message.to_json() for message in messages]
        records = [{"messageId": str(number), "body": body} for number, body in enumerate(bodies)]
        return {int(message_id) for message_id in self.room.take(records)}

    def pushes(self) -> list[PushMessage]:
        """Those queued since the last look."""
        return self.queues.pushes()
