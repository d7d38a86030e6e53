"""Scenarios: pushes to phones of which one has gone, one is refused, one is held, and some are out of reach at first.

By APNs for the statement store, by APNs for XMTP, and by the webhook, which knows of no phone that has gone.
"""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.connection import Connection
from pynamodb.exceptions import PynamoDBException

from clarion import tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.decisions import Environment, SubscriptionStatus
from clarion.messages import PushMessage
from clarion.providers.apns import ApnsApp
from clarion.providers.apps import App, Apps
from clarion.providers.credentials import ApnsCredential, ApnsKey
from clarion.providers.transport import Timeouts, Transport
from clarion.providers.webhook import WebhookApp, WebhookCredential, WebhookSecret
from clarion.secrets import Secret
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash, token_of
from dispatch.batch import Dispatcher
from dispatch.queue import Delivery, PushQueue
from local import keys, tls
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.provider import InjectedFault, Options, StandIn
from local.webhook import Webhook
from tests.crash.contents import BY_WEBHOOK, NOW, OF_STATEMENTS, OF_XMTP, Content
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.events import event_log
from tests.match.scene import PREFIX

BUNDLE = "io.pcf.polkadotapp"
APP, HELD_APP = "the app", "an app that is held"
"""Two: a batch of one app in which nothing is accepted yet is held whole, and time stands still here."""
SECRET = "crash-provider"
LONGEST_VISIBILITY = 43_200
PATIENT = Timeouts(connect=60.0, answer=60.0)
"""No stand-in fails to answer here, however busy the machine."""
FAILED = (BotoCoreError, ClientError, PynamoDBException)
"""What fails a whole invocation: Lambda brings the batch again."""
_devices = count(1)


class Way(Protocol):
    """A stand-in for a provider, and how its apps and devices are made.

    `refusal` is what it refuses one push for, `gone` what it says of a device that has gone, if it ever does.
    """

    @property
    def channel(self) -> Channel: ...
    @property
    def refusal(self) -> str: ...
    @property
    def gone(self) -> str | None: ...
    @property
    def stand_in(self) -> StandIn: ...

    def device(self, trouble: InjectedFault) -> str:
        """The address of a new one, whose pushes meet `trouble`. It holds what the stand-in knows the device by."""

    def app(self, name: str) -> App: ...


@dataclass(frozen=True)
class ByApns:
    stand_in: Apns
    channel = Channel.APNS
    refusal, gone = "PayloadTooLarge", "Unregistered"

    def device(self, trouble: InjectedFault) -> str:
        return troubled_token(trouble, next(_devices))

    def app(self, name: str) -> ApnsApp:
        credential = ApnsCredential(Secret(boto3.client("secretsmanager"), SECRET, ApnsKey), clock=lambda: NOW)
        return ApnsApp(credential, name=name, bundle_id=BUNDLE, url=self.stand_in.url)


@dataclass(frozen=True)
class ByWebhook:
    stand_in: Webhook
    channel = Channel.WEBHOOK
    refusal, gone = "NotFound", None

    def device(self, trouble: InjectedFault) -> str:
        return self.stand_in.install(trouble)

    def app(self, name: str) -> WebhookApp:
        secret = Secret(boto3.client("secretsmanager"), SECRET, WebhookSecret)
        credential = WebhookCredential(secret, clock=lambda: NOW)
        return WebhookApp(credential, name=name, url=self.stand_in.push_url, public=False)


@dataclass(frozen=True)
class Deployment:
    way: Way
    transport: Transport
    connection: Connection
    dead_letter_url: str
    cleanup_url: str

    def process(self, queue_url: str, held_url: str) -> Dispatcher:
        return Dispatcher(
            apps=Apps(APP, {(name, Environment.PRODUCTION): self.way.app(name) for name in (APP, HELD_APP)}),
            transport=self.transport,
            connection=self.connection,
            queue=PushQueue(boto3.client("sqs"), queue_url, self.dead_letter_url, held_url),
            cleanup=CleanupQueue(boto3.client("sqs"), self.cleanup_url),
            events=event_log(),
            clock=lambda: NOW,
            writers=ThreadPoolExecutor(1),
        )


@dataclass
class Dispatching:
    deployment: Deployment
    contents: Sequence[Content]
    """Each is sent to one that is reached at once and to one that is out of reach at first; the first, to all others."""
    _waiting: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queue_url, self._held_url = (
            boto3.client("sqs").create_queue(QueueName=f"crash-{uuid4()}")["QueueUrl"] for _ in range(2)
        )
        way, first = self.deployment.way, self.contents[0]
        ways_to_arrive = InjectedFault(), InjectedFault("ServiceUnavailable", times=1)
        self._arriving = [(self._push_to(trouble, one), one) for one in self.contents for trouble in ways_to_arrive]
        self._gone = self._push_to(InjectedFault(way.gone), first) if way.gone else None
        self._refused = self._push_to(InjectedFault(way.refusal), first)
        self._push_to(InjectedFault("Forbidden"), first, HELD_APP)
        self.stop()

    def _push_to(self, trouble: InjectedFault, content: Content, app: str = APP) -> Subscription:
        way, network = self.deployment.way, content.network
        address, now = way.device(trouble), int(NOW * 1000)
        row = Subscription(str(uuid4()), client_id=uuid4().bytes * 2, token=address, status="active")
        row.network, row.channel, row.app = network, way.channel.value, app
        row.generation, row.rule_count, row.created_at, row.updated_at = 1, 1, 1, now
        row.save()
        token_of(row).save()
        self._enqueue(
            PushMessage(
                network=network,
                receipt=uuid4(),
                observed_at=now,
                envelope_id=uuid4().bytes * 2,
                subscription_id=row.subscription_id,
                client_id=row.client_id,
                channel=way.channel,
                wanted=content.wanted,
                body=content.body,
                expires_at=int(NOW) + 3600,
            )
        )
        return row

    def _enqueue(self, message: PushMessage) -> None:
        sqs, url = boto3.client("sqs"), self._queue_url
        sqs.send_message(QueueUrl=url, MessageBody=message.to_json())
        [received] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=LONGEST_VISIBILITY)["Messages"]
        self._waiting[received["MessageId"]] = {
            "messageId": received["MessageId"],
            "receiptHandle": received["ReceiptHandle"],
            "body": received["Body"],
            "attributes": {"ApproximateReceiveCount": "1"},
        }

    def deliver(self) -> bool:
        try:
            report = self._dispatcher.run([Delivery.of(record) for record in self._waiting.values()])
            self._dispatcher.events.flush()
        except FAILED:
            return False
        wire.step(RETURN)
        self._waiting = {name: record for name, record in self._waiting.items() if name in report.unfinished}
        return not self._waiting

    def stop(self) -> None:
        with wire.aside():
            self._dispatcher = self.deployment.process(self._queue_url, self._held_url)

    def check(self) -> None:
        for row, content in self._arriving:
            self._check_arrived(row, content)
        if self._gone:
            gone = Subscription.get(self._gone.subscription_id, consistent_read=True)
            assert gone.status == SubscriptionStatus.INVALID, "a dead token's subscription is still active"
            assert not list(Token.query(token_hash(Channel.APNS, gone.token))), "a dead token is still taken"
        assert 1 <= _delayed(self._held_url) <= 2, "a held push is not in the held queue once, or twice after a crash"
        dead = Counter(_drain(self.deployment.dead_letter_url))
        assert dead[self._refused.subscription_id], "a refused push is not in the dead-letter queue"
        assert set(dead) == {self._refused.subscription_id}, "a dead letter that was not refused"

    def _check_arrived(self, row: Subscription, content: Content) -> None:
        received = self.deployment.way.stand_in.received
        pushes = [push for push in received if push.accepted and push.token in row.token]
        assert pushes, "a push never arrived"
        assert len(pushes) <= 2, "a push was repeated more than once"
        assert len({(push.push_id, push.headers.get("apns-collapse-id")) for push in pushes}) == 1, "two pushes"
        assert all(map(content.is_shown_by, pushes)), "a push is not what it should be"


def _delayed(url: str) -> int:
    answer = boto3.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessagesDelayed"]
    )
    return int(answer["Attributes"]["ApproximateNumberOfMessagesDelayed"])


def _drain(url: str) -> Iterator[str]:
    sqs = boto3.client("sqs")
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            yield json.loads(message["Body"])["subscription_id"]


@contextmanager
def served[Served: StandIn](stand_in: Served) -> Iterator[Served]:
    """In a thread of its own, as the transport blocks the one it is called in."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(stand_in.__aenter__(), loop).result()
        yield stand_in
    finally:
        asyncio.run_coroutine_threadsafe(stand_in.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def by_apns(localhost: tls.Localhost) -> tuple[ByApns, str]:
    """It and the secret of its apps."""
    key = keys.generate_apns_key()
    stand_in = Apns(localhost.server_context(), known=[key], topics=[BUNDLE], options=Options(now=lambda: NOW))
    secret = {"key_id": key.key_id, "team_id": key.team_id, "private_key": key.private_key}
    return ByApns(stand_in), json.dumps(secret)


def by_webhook(localhost: tls.Localhost) -> tuple[ByWebhook, str]:
    """As `by_apns`."""
    stand_in = Webhook(localhost.server_context(), options=Options(now=lambda: NOW))
    return ByWebhook(stand_in), stand_in.secret_as_json()


SCENARIOS: dict[str, tuple[Callable[[tls.Localhost], tuple[Way, str]], Sequence[Content]]] = {
    "dispatch": (by_apns, OF_STATEMENTS),
    "dispatch xmtp": (by_apns, OF_XMTP),
    "dispatch webhook": (by_webhook, BY_WEBHOOK),
}


@contextmanager
def scenario(name: str, folder: Path) -> Iterator[Scenario]:
    """With a stand-in for the provider, which keeps its certificates in `folder`."""
    make, contents = SCENARIOS[name]
    localhost, sqs = tls.issue(folder), boto3.client("sqs")
    way, secret = make(localhost)
    boto3.client("secretsmanager").create_secret(Name=SECRET, SecretString=secret)
    dead_letter_url, cleanup_url = (
        sqs.create_queue(QueueName=f"crash-{name.replace(' ', '-')}-{end}")["QueueUrl"] for end in ("dead", "cleanup")
    )
    transport = Transport(str(localhost.ca_file), PATIENT)
    with served(way.stand_in):
        deployment = Deployment(way, transport, tables.bind(PREFIX), dead_letter_url, cleanup_url)
        try:
            yield Scenario(name, lambda: Dispatching(deployment, contents))
        finally:
            transport.close()
            boto3.client("secretsmanager").delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)
