"""An NTF server's commands in the emulation, agents that ask them, and the worker that carries out what follows."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Self

import boto3
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from moto import mock_aws
from nacl.public import Box, PrivateKey, PublicKey

from clarion import newest, tables
from clarion.event_log import EventLog, EventWriter
from clarion.messages import CommandMessage, PushMessage
from clarion.networks import Receiver
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, batch_blocks
from clarion.networks.simplex.bodies import NEWEST
from clarion.networks.simplex.commands import SimplexCommand, read_command
from clarion.networks.simplex.composing import compose
from clarion.networks.simplex.credentials import dh_der
from clarion.networks.simplex.encoding import Reader, short, word16
from clarion.networks.simplex.needs import ITEMS
from clarion.networks.simplex.ntf import NtfRequest, NtfSession, requests
from clarion.networks.simplex.queues import FollowedQueue
from clarion.networks.simplex.settings import SimplexOptions
from clarion.networks.simplex.tables import MODELS
from clarion.networks.simplex.tokens import StoredToken
from clarion.networks.simplex.transmissions import Transmission
from clarion.newest import NewestItem
from clarion.newest_updates import NewestArrival, NewestKey, recording
from clarion.secrets import Secret, SharedSecret
from clarion.tables import RuleRow, Subscription, find_subscription, split_rule_key
from ntf.commands.replies import NtfCommands
from ntf.commands.store import NtfStore
from simplex.token_commands import TokenCommandHandler
from simplex.token_rules import TokenRules
from tests.events import SETTINGS, KeptEvents
from tests.match.scene import credentials

NOW = 1_800_000_000_000
SECRET = "s" * 64
SESSION = NtfSession(b"session", 3, PrivateKey(b"k" * 32))
OPTIONS = SimplexOptions(hosts=("ntf.example.com",), app="first", sandbox_provider=True, test_provider=True)
DEVICE = b"ab" * 32
QUEUES = ("apns", "commands")
SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")
PKCS8_ED25519 = bytes.fromhex("302e020100300506032b657004220420")


class Clock:
    """UNIX milliseconds; moves by `advance` alone."""

    now = NOW

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


def queue(number: int, server: int = 0) -> SmpQueue:
    identity = sha256(f"server {server}".encode()).digest()
    return SmpQueue(SmpServer((f"smp{server}.example.com",), "5223", identity), number.to_bytes(24))


def notifier_key(number: int) -> bytes:
    return PKCS8_ED25519 + number.to_bytes(32)


@dataclass
class Agent:
    """One device's: its owner's key, its half of the pushes' key, and what it was answered."""

    stage: "Stage"
    name: bytes = b"o"
    device: bytes = DEVICE
    provider: bytes = b"AP"
    peer: str = "192.0.2.1"
    token_id: bytes = b""
    secret: bytes = field(default=b"", repr=False)
    dh: PrivateKey = field(default_factory=lambda: PrivateKey(b"d" * 32), repr=False)

    @property
    def owner(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(sha256(self.name).digest())

    def ask(self, command: bytes, entity_id: bytes = b"", key: Ed25519PrivateKey | None = None) -> bytes:
        plain = Transmission(b"c", entity_id, command)
        signed = (key or self.owner).sign(plain.signed(SESSION.id))
        transmission = Transmission(b"c", entity_id, command, signed)
        session = replace(SESSION, peer=self.peer)
        (request,) = requests(next(batch_blocks([transmission.encoded], NTF_BLOCK_BYTES)), session)
        assert isinstance(request, NtfRequest), request.content
        return self.stage.commands.execute(request)

    def register(self) -> bytes:
        """TNEW. The reply; from a good one the id and the agreed key are kept."""
        owner = SPKI_ED25519 + self.owner.public_key().public_bytes_raw()
        command = b"TNEW T" + self.provider + short(self.device) + short(owner) + short(dh_der(self.dh.public_key))
        reply = self.ask(command)
        if reply.startswith(b"IDTKN "):
            reader = Reader(reply.removeprefix(b"IDTKN "))
            self.token_id = reader.short()
            self.secret = Box(self.dh, PublicKey(reader.short()[-32:])).shared_key()
        return reply

    def verify(self, code: bytes | None = None) -> bytes:
        return self.ask(b"TVFY " + short(self.pushed_code() if code is None else code), self.token_id)

    def activate(self) -> "Agent":
        self.register()
        assert self.verify() == b"OK"
        self.stage.pushes()
        return self

    def replace(self, device: bytes) -> bytes:
        return self.ask(b"TRPL " + self.provider + short(device), self.token_id)

    def status(self) -> bytes:
        return self.ask(b"TCHK", self.token_id)

    def wake_up(self, minutes: int) -> bytes:
        return self.ask(b"TCRN " + word16(minutes), self.token_id)

    def subscribe(self, number: int, *, key: int | None = None, server: int = 0) -> bytes:
        followed = queue(number, server).encoded
        secret = notifier_key(number if key is None else key)
        return self.ask(b"SNEW S" + short(self.token_id) + followed + short(secret))

    def pushed_code(self) -> bytes:
        """What the push that was queued last says to this device."""
        return self.opened(self.stage.pushes()[-1])["verification"]

    def opened(self, push: PushMessage) -> dict[str, bytes]:
        row = find_subscription(str(push.subscription_id))
        assert row is not None
        receiver = Receiver("", 4096, 0, bytes(row.network_data or b""), SharedSecret(secret=SECRET))
        data = json.loads(compose(push.channel, push, receiver).body)["notificationData"]
        return {name: self._opened(data["nonce"], value) for name, value in data.items() if name != "nonce"}

    def _opened(self, nonce: str, text: str) -> bytes:

        padded = Box.decode(self.secret).decrypt(urlsafe_b64decode(text), urlsafe_b64decode(nonce))
        return Reader(padded).long()


@dataclass
class Stage:
    clock: Clock
    commands: NtfCommands
    token_commands: TokenCommandHandler
    sqs: Any

    @classmethod
    def make(cls, clock: Clock, events: EventLog, prefix: str = "") -> Self:
        """A process of each; `events` are the worker's."""
        connection, items_table = tables.bind(prefix, own=MODELS), f"{prefix}{ITEMS}"
        sqs = boto3.client("sqs")
        pushes, commands = (sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in QUEUES)
        store = NtfStore(
            connection=connection,
            secret=Secret(boto3.client("secretsmanager"), "key", SharedSecret),
            options=OPTIONS,
            sqs=_WithoutDelay(sqs),  # type: ignore[arg-type] # a client, but for the time that passes
            push_queue_url=pushes,
            command_queue_url=commands,
            items_table=items_table,
            events=EventWriter(boto3.client("firehose"), sqs, SETTINGS),
            stage=SETTINGS.stage,
            clock=clock,
        )
        token_commands = TokenCommandHandler(connection, items_table, TokenRules(connection, events))
        return cls(clock, NtfCommands(store), token_commands, sqs)

    def agent(self, name: bytes = b"o", device: bytes = DEVICE, provider: bytes = b"AP") -> Agent:
        return Agent(self, name, device, provider)

    def pushes(self) -> list[PushMessage]:
        """Since the last look."""
        return [PushMessage.model_validate_json(body) for body in self.drain("apns")]

    def sent_commands(self) -> list[SimplexCommand]:
        """Since the last look."""
        return [read_command(CommandMessage.model_validate_json(body).content) for body in self.drain("commands")]

    def carry_out(self) -> None:
        for command in self.sent_commands():
            self.token_commands.handle(command, self.clock())

    def drain(self, name: str) -> list[str]:
        url, bodies = self.sqs.get_queue_url(QueueName=name)["QueueUrl"], list[str]()
        while found := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            bodies += [message["Body"] for message in found]
            for message in found:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def token(self, agent: Agent) -> StoredToken:
        return StoredToken.get(agent.token_id.hex())

    def subscription(self, agent: Agent) -> Subscription:
        found = find_subscription(self.token(agent).subscription_id)
        assert found is not None
        return found

    def rules(self, subscription_id: str) -> list[bytes]:
        """Those in force."""
        row = find_subscription(subscription_id)
        rules = [(split_rule_key(bytes(rule.rule_key))[0], bytes(rule.key)) for rule in RuleRow.query(subscription_id)]
        return [key for generation, key in rules if row is None or generation == row.generation]

    def queues(self) -> list[FollowedQueue]:
        return list(FollowedQueue.scan())

    def record(self, agent: Agent, name: str, raw: bytes) -> int:
        """An item, as match records it; its number."""
        client, item = boto3.client("dynamodb"), NewestItem(name, self.clock(), raw)
        key, arrival = NewestKey(ITEMS, self.token(agent).subscription_id), NewestArrival([item], self.clock())
        return newest.read_item(client.update_item(**recording(key, NEWEST, arrival))["Attributes"]).number


@contextmanager
def staged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        deploy()
        yield Stage.make(Clock(), KeptEvents())


def deploy(prefix: str = "") -> None:
    """Tables, queues and secrets, in an emulation; with `prefix`, in a deployment that has all other tables."""
    tables.bind(prefix, own=MODELS)
    for model in (*(() if prefix else tables.MODELS), *MODELS):
        model.create_table(billing_mode="PAY_PER_REQUEST")
    boto3.client("dynamodb").create_table(
        TableName=f"{prefix}{ITEMS}",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
    )
    sqs = boto3.client("sqs")
    for name in (*QUEUES, "late_events"):
        sqs.create_queue(QueueName=name)
    boto3.client("secretsmanager").create_secret(Name="key", SecretString=json.dumps({"secret": SECRET}))


class _WithoutDelay:
    """Hands messages over at once: what a delay is for has been done by the time that a test looks."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sqs, name)

    def send_message(self, **request: Any) -> Any:
        return self._sqs.send_message(**{**request, "DelaySeconds": 0})
