"""A Notify server in the emulation, with an app, wallets that ask it, a relay that keeps what it is given, a key server."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from api.networks.walletconnect.kept_notifications import Keeping, newest_notification
from clarion import compact_json, tables
from clarion.command_queue import CommandQueue
from clarion.event_log import EventLog
from clarion.events import Event
from clarion.messages import CommandMessage
from clarion.networks.walletconnect.acts import ACTS, Profile
from clarion.networks.walletconnect.commands import (
    DappNotification,
    NotifyAccount,
    NotifyCommand,
    RelayCommand,
    WalletConnectCommand,
    message_of,
)
from clarion.networks.walletconnect.did import KeyType, domain_did, key_did, key_of
from clarion.networks.walletconnect.domains import AppKeys, public_keys
from clarion.networks.walletconnect.envelope import agreed_key, open_sealed, seal, seal_first, topic_of
from clarion.networks.walletconnect.jwt import issue, verify
from clarion.networks.walletconnect.notifications import AddressedNotification
from clarion.networks.walletconnect.projects import DappApp, Project, secret_hash
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.relay_publisher import PublishOutcome
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.settings import WalletConnectOptions
from clarion.networks.walletconnect.subscriptions import NotifySubscription, find_notify_subscription
from clarion.networks.walletconnect.tables import MODELS
from clarion.networks.walletconnect.tags import TAGS
from clarion.networks.walletconnect.topics import TopicKind, followed
from clarion.providers.transport import Answer, Request, Result, Transport
from clarion.secrets import Secret
from tests.events import KeptEvents
from tests.match.scene import InTurn
from tests.walletconnect import Wallet
from walletconnect.batch import CommandWorker
from walletconnect.key_server import KeyServerClient
from walletconnect.notify_commands import NotifyCommandHandler
from walletconnect.outbox import NotifyOutbox
from walletconnect.relay_commands import RelayCommandHandler
from walletconnect.request_handlers import RequestHandlers

NOW = 1_800_000_000
"""UNIX seconds."""
DOMAIN, APP, OTHER_APP = "notify.example.com", "app.example.com", "other.example.com"
PROJECT = "ab" * 16
KEY_SERVER = "https://keys.example.com"
FIRST_TYPE, SECOND_TYPE = "f173f231-a45c-4dc0-aa5d-956eb04f7360", "1b36bc5b-8d64-4e0f-9a2b-0a8a4bb41c11"
OPTIONS = WalletConnectOptions(
    domain=DOMAIN,
    relay_url="https://relay.example.com",
    relay_project_id="0" * 32,
    key_servers=("keys.example.com",),
    private_key_servers=("localhost",),
)
KEYS = ServerKeys(relay_key="01" * 32, authentication_key="02" * 32, subscribe_key="03" * 32)
PREFIX = "clarion-test-"


class Clock:
    """Stands still until it is set, in UNIX seconds."""

    now = NOW

    @property
    def ms(self) -> int:
        return self.now * 1000


class KeptPublications:
    """A relay that keeps what it is given; it fails as often as `failing` says, and else has one `outcome`.

    It fails on `failing_topics`, too.
    """

    def __init__(self) -> None:
        self.published: list[Publication] = []
        self.failing = 0
        self.failing_topics: set[str] = set()
        self.outcome = PublishOutcome.PUBLISHED

    def publish(self, publications: Sequence[Publication]) -> list[PublishOutcome]:
        if self.failing:
            self.failing -= 1
            return [PublishOutcome.FAILED for _ in publications]
        self.published += [one for one in publications if one.topic not in self.failing_topics]
        return [PublishOutcome.FAILED if one.topic in self.failing_topics else self.outcome for one in publications]


class KeyServers(Transport):
    """Answers as key servers do. `known` are the CACAOs by key."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Mapping[str, Any]] = {}
        self.requests: list[Request] = []
        self.status = 200

    def register(self, wallet: Wallet, **fields: Any) -> None:
        self.known[wallet.identity_public_key] = wallet.cacao(**fields)

    def send(self, requests: Iterable[Request]) -> list[Result]:
        asked = list(requests)
        self.requests += asked
        return [self._answer(request.url.rpartition("=")[2]) for request in asked]

    def _answer(self, key: str) -> Answer:
        if self.status != 200:
            return Answer(self.status, b"")
        if key not in self.known:
            return Answer(404, b'{"status": "FAILED"}')
        return Answer(
            200, json.dumps({"status": "SUCCESS", "error": None, "value": {"cacao": self.known[key]}}).encode()
        )


@dataclass(kw_only=True)
class Phone:
    """A wallet on one phone: an identity key, and the keys that it agrees on with an app and with the server."""

    clock: Clock
    wallet: Wallet = field(default_factory=Wallet)
    profile: Profile = "shipped"
    app: str = APP
    private: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)
    sym_key: bytes = b""
    rpc_ids: int = 1_795_187_216_880_427

    def token(self, act: str, key: Ed25519PrivateKey | None = None, **claims: Any) -> str:
        """Signed for the app, but for these claims."""
        whole = {
            "ksu": KEY_SERVER,
            "aud": key_did(keys_of(self.app).authentication, KeyType.ED25519),
            "sub": self.wallet.subject,
            "app": domain_did(self.app),
            **({"mjv": "1"} if self.profile == "shipped" else {}),
            **claims,
        }
        now = whole.pop("now", self.clock.now)
        return issue(key or self.wallet.identity_key, whole, act=act, now=now, profile=self.profile)

    def first(self, act: str, member: str, token: str, to: bytes) -> RelayCommand:
        """A first message, to whoever published the key `to`."""
        return self._command(act, topic_of(to), seal_first(self._request(member, token), self.private, to))

    def later(self, act: str, member: str, token: str) -> RelayCommand:
        """On the subscription's topic."""
        return self._command(act, topic_of(self.sym_key), seal(self._request(member, token), self.sym_key))

    def subscribe(self, *types: str, **claims: Any) -> RelayCommand:
        token = self.token("notify_subscription", scp=" ".join(types or (FIRST_TYPE, SECOND_TYPE)), **claims)
        return self.first("notify_subscription", "subscriptionAuth", token, keys_of(self.app).subscribe)

    def update(self, *types: str, **claims: Any) -> RelayCommand:
        token = self.token("notify_update", scp=" ".join(types), **claims)
        return self.later("notify_update", "updateAuth", token)

    def delete(self, **claims: Any) -> RelayCommand:
        return self.later("notify_delete", "deleteAuth", self.token("notify_delete", **claims))

    def watch(self, **claims: Any) -> RelayCommand:
        aud = key_did(KEYS.authentication.public_key().public_bytes_raw(), KeyType.ED25519)
        token = self.token("notify_watch_subscriptions", **{"aud": aud, **claims})
        to = KEYS.subscribe.public_key().public_bytes_raw()
        return self.first("notify_watch_subscriptions", "watchSubscriptionsAuth", token, to)

    def get(self, limit: int = 50, **claims: Any) -> RelayCommand:
        token = self.token("notify_get_notifications", **{"lmt": limit, "aft": None, "urf": False, **claims})
        return self.later("notify_get_notifications", "auth", token)

    def mark(self, *ids: str, **claims: Any) -> RelayCommand:
        token = self.token("notify_mark_notifications_as_read", **{"all": not ids, "ids": list(ids) or None, **claims})
        return self.later("notify_mark_notifications_as_read", "auth", token)

    def receipt(self, publication: Publication, **claims: Any) -> RelayCommand:
        """Of a notification that was published."""
        request = json.loads(open_sealed(publication.message, self.sym_key))
        act, member = RECEIPTS[self.profile]
        content = {"id": request["id"], "jsonrpc": "2.0", "result": {member: self.token(act, **claims)}}
        return self._command(act, publication.topic, seal(compact_json.encode(content), self.sym_key))

    def watch_key(self) -> bytes:
        return agreed_key(self.private, KEYS.subscribe.public_key().public_bytes_raw())

    def response_key(self) -> bytes:
        return agreed_key(self.private, keys_of(self.app).subscribe)

    def _request(self, member: str, token: str) -> bytes:
        self.rpc_ids += 1
        request = {"id": self.rpc_ids, "jsonrpc": "2.0", "method": "wc_notify", "params": {member: token}}
        return compact_json.encode(request)

    def _command(self, act: str, topic: str, message: str) -> RelayCommand:
        return RelayCommand(topic=topic, message=message, tag=TAGS[act], published_at=self.clock.ms)


RECEIPTS: Mapping[Profile, tuple[str, str]] = {
    "shipped": ("notify_message_response", "responseAuth"),
    "document": ("notify_receipt", "receiptAuth"),
}


def keys_of(app: str) -> AppKeys:
    return public_keys(app_row(app))


def app_row(app: str) -> DappApp:
    """Each app has keys of its own."""
    seed = app.encode().ljust(32)[:32]
    return DappApp(app, project_id=PROJECT, subscribe_key=seed, authentication_key=seed[::-1], created_at=0)


@dataclass
class Stage:
    """What was published is read by `opened`."""

    clock: Clock
    worker: CommandWorker
    relay: KeptPublications
    key_servers: KeyServers
    events: EventLog
    queues: Mapping[str, str]

    @classmethod
    def make(cls, clock: Clock, *, relay: KeptPublications | None = None, events: EventLog | None = None) -> "Stage":
        """The tables have to be there already. What is given outlasts it."""
        relay, events = relay or KeptPublications(), events or KeptEvents()
        key_servers, sqs, in_turn = KeyServers(), boto3.client("sqs"), InTurn()
        queues = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("commands", "envelopes", "dead")}
        outbox = NotifyOutbox(relay=relay, sqs=sqs, envelopes_queue_url=queues["envelopes"], events=events)
        notify_commands = NotifyCommandHandler(domain=DOMAIN, outbox=outbox)
        relay_commands = RelayCommandHandler(
            keys=_secret(),
            key_servers=KeyServerClient(key_servers, OPTIONS),
            handlers=RequestHandlers(tables.bind(PREFIX, own=MODELS), in_turn),
            notify_commands=notify_commands,
        )
        worker = CommandWorker(
            relay_commands=relay_commands,
            notify_commands=notify_commands,
            queue=CommandQueue(sqs=sqs, url=queues["commands"], dead_letter_url=queues["dead"], max_receives=3),
        )
        return cls(clock, worker, relay, key_servers, events, queues)

    def phone(self, secret: bytes = b"w" * 32, **fields: Any) -> Phone:
        """Of a wallet whose identity key signs for any app's notifications."""
        phone = Phone(clock=self.clock, wallet=Wallet(secret), **fields)
        self.key_servers.register(phone.wallet, statement=ALL_APPS)
        return phone

    def subscribed(self, secret: bytes = b"w" * 32, *types: str, **fields: Any) -> Phone:
        phone = self.phone(secret, **fields)
        self.handle(phone.subscribe(*types))
        phone.sym_key = self.row(phone).sym_key
        return phone

    def row(self, phone: Phone) -> NotifySubscription:
        row = find_notify_subscription(phone.app, phone.wallet.account)
        assert row is not None
        return row

    def welcome(self, **content: Any) -> None:
        """What new subscribers are sent."""
        welcome = {"enabled": True, "body": "Good that you are here", "url": None, **content}
        Project(PROJECT).update([Project.welcome.set(welcome)])

    def notify(self, *phones: Phone, given_id: str = "n1", **content: Any) -> NotifyCommand:
        """As the router makes it, once it has kept the notification."""
        fields = {"type": FIRST_TYPE, "title": "Hello ✓", "body": "Grüße ???>>>~~~", **content}
        notification = DappNotification(id=given_id, **fields)
        return NotifyCommand(
            project_id=PROJECT,
            app=phones[0].app,
            notification=notification,
            accounts=tuple(self._kept(phone, notification) for phone in phones),
            issued_at=self.clock.ms,
        )

    def _kept(self, phone: Phone, notification: DappNotification) -> NotifyAccount:
        subscription_id = self.row(phone).subscription_id
        addressed = AddressedNotification(PROJECT, notification, subscription_id, self.clock.ms)
        kept = Keeping(addressed, DOMAIN, self.clock.ms).keep(newest_notification(subscription_id))
        assert kept is not None
        return NotifyAccount(account=phone.wallet.account, subscription_id=subscription_id, number=int(kept.number))

    def handle(self, *commands: WalletConnectCommand, receives: int = 1) -> list[Publication]:
        """What was published for them; all are done with."""
        before = len(self.relay.published)
        assert self.worker.handle([self.record(one, receives) for one in commands]) == []
        return self.relay.published[before:]

    def record(self, command: WalletConnectCommand, receives: int = 1) -> dict[str, Any]:
        """As Lambda hands it over."""
        return record_of(message_of(command).to_json(), self.clock, receives)

    @property
    def emitted(self) -> list[Event]:
        assert isinstance(self.events, KeptEvents)
        return self.events.events

    def envelopes(self) -> list[str]:
        return self.drain("envelopes")

    def drain(self, name: str) -> list[str]:
        sqs, url, bodies = boto3.client("sqs"), self.queues[name], list[str]()
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for each in found:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                bodies.append(each["Body"])
        return bodies


ALL_APPS = (
    "I further authorize this app to view and manage my notifications for ALL apps. "
    "Read more at https://walletconnect.com/notifications-all-apps"
)


def record_of(body: str, clock: Clock, receives: int = 1) -> dict[str, Any]:
    attributes = {"ApproximateReceiveCount": str(receives), "SentTimestamp": str(clock.ms)}
    return {"messageId": str(uuid4()), "body": body, "receiptHandle": "a-handle", "attributes": attributes}


def other_command(content: bytes) -> str:
    return CommandMessage(network="walletconnect", content=content).to_json()


def opened(publication: Publication, key: bytes) -> dict[str, Any]:
    """The JSON-RPC in it."""
    read: dict[str, Any] = json.loads(open_sealed(publication.message, key))
    return read


def claims_of(
    publication: Publication, key: bytes, phone: Phone, act: str, audience: str | None = None
) -> Mapping[str, Any]:
    """Of the token in it, which `phone` would take."""
    content = opened(publication, key)
    [token] = (content.get("result") or content["params"]).values()
    audience = audience or phone.wallet.key_did
    return verify(token, act=act, now=phone.clock.now, audience=audience, app=None, profile=phone.profile)


def deploy() -> None:
    """The tables, and the apps in them."""
    tables.bind(PREFIX, own=MODELS)
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    boto3.client("secretsmanager").create_secret(Name="walletconnect-server", SecretString=KEYS.text)
    Project(PROJECT, secret_hash=secret_hash("s"), name="a dapp", created_at=0).save()
    for app in (APP, OTHER_APP):
        app_row(app).save()
        followed(topic_of(keys_of(app).subscribe), TopicKind.APP, app, 0).save()


def _secret() -> Secret[ServerKeys]:
    return Secret(boto3.client("secretsmanager"), "walletconnect-server", ServerKeys)


def x25519_of(did: str) -> bytes:
    return key_of(did, KeyType.X25519)


def ttl_of(act: str, profile: Profile) -> int:
    return ACTS[profile][act].ttl
