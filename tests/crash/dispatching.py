"""Scenario: pushes to phones of which one has gone, one is refused, one is held, and one is out of reach at first."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
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
from clarion.networks import STATEMENTS
from clarion.networks.statements.payload import StatementBody
from clarion.providers.apns import ApnsApp
from clarion.providers.apps import Apps
from clarion.providers.credentials import ApnsCredential, ApnsKey
from clarion.providers.transport import Transport
from clarion.secrets import Secret
from clarion.tables import Subscription, Token
from clarion.tokens import token_hash
from dispatch.batch import Dispatcher
from dispatch.queue import Delivery, PushQueue
from local import keys, tls
from local.apns import Apns
from local.apns_trouble import troubled_token
from local.provider import InjectedFault, Options
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.events import event_log
from tests.match.scene import PREFIX

BUNDLE = "io.pcf.polkadotapp"
APP, HELD_APP = "the app", "an app that is held"
"""Two: a batch of one app in which nothing is accepted yet is held whole, and time stands still here."""
NOW = 1_800_000_000.0
FAILED = (BotoCoreError, ClientError, PynamoDBException)
"""What fails a whole invocation: Lambda brings the batch again."""
_devices = count(1)


@dataclass(frozen=True)
class Deployment:
    apns: Apns
    transport: Transport
    connection: Connection
    dead_letter_url: str
    cleanup_url: str

    def process(self, queue_url: str, held_url: str) -> Dispatcher:
        apps = [self._app(name) for name in (APP, HELD_APP)]
        return Dispatcher(
            apps=Apps(APP, {(app.name, Environment.PRODUCTION): app for app in apps}),
            transport=self.transport,
            connection=self.connection,
            queue=PushQueue(boto3.client("sqs"), queue_url, self.dead_letter_url, held_url),
            cleanup=CleanupQueue(boto3.client("sqs"), self.cleanup_url),
            events=event_log(),
            clock=lambda: NOW,
            transactions=1,
        )

    def _app(self, name: str) -> ApnsApp:
        secret = Secret(boto3.client("secretsmanager"), "crash-apns", ApnsKey)
        return ApnsApp(ApnsCredential(secret, clock=lambda: NOW), name=name, bundle_id=BUNDLE, url=self.apns.url)


@dataclass
class Dispatching:
    deployment: Deployment
    _waiting: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._queue_url, self._held_url = (
            boto3.client("sqs").create_queue(QueueName=f"crash-{uuid4()}")["QueueUrl"] for _ in range(2)
        )
        self._reached = self._push_to(InjectedFault())
        self._late = self._push_to(InjectedFault("ServiceUnavailable", times=1))
        self._gone = self._push_to(InjectedFault("Unregistered"))
        self._refused = self._push_to(InjectedFault("PayloadTooLarge"))
        self._push_to(InjectedFault("Forbidden"), HELD_APP)
        self.stop()

    def _push_to(self, trouble: InjectedFault, app: str = APP) -> Subscription:
        token = troubled_token(trouble, next(_devices))
        now = int(NOW * 1000)
        row = Subscription(str(uuid4()), client_id=uuid4().bytes * 2, token=token, status="active")
        row.network, row.channel, row.app = STATEMENTS, Channel.APNS.value, app
        row.generation, row.rule_count, row.created_at, row.updated_at = 1, 1, 1, now
        row.save()
        Token(
            token_hash(Channel.APNS, token), STATEMENTS, subscription_id=row.subscription_id, client_id=row.client_id
        ).save()
        self._enqueue(
            PushMessage(
                network=STATEMENTS,
                receipt=uuid4(),
                observed_at=now,
                envelope_id=uuid4().bytes * 2,
                subscription_id=row.subscription_id,
                client_id=row.client_id,
                channel=Channel.APNS,
                body=StatementBody(sender=bytes(32), topic=bytes(32), data=b"sealed"),
                expires_at=int(NOW) + 3600,
            )
        )
        return row

    def _enqueue(self, message: PushMessage) -> None:
        sqs, url = boto3.client("sqs"), self._queue_url
        sqs.send_message(QueueUrl=url, MessageBody=message.to_json())
        [received] = sqs.receive_message(QueueUrl=url)["Messages"]
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
        for row in (self._reached, self._late):
            pushes = [push for push in self.deployment.apns.received if push.token == row.token and push.accepted]
            assert pushes, "a push never arrived"
            assert len(pushes) <= 2, "a push was repeated more than once"
            assert len({(push.headers["apns-id"], push.headers["apns-collapse-id"]) for push in pushes}) == 1, (
                "two pushes"
            )
        gone = Subscription.get(self._gone.subscription_id, consistent_read=True)
        assert gone.status == SubscriptionStatus.INVALID, "a dead token's subscription is still active"
        assert not list(Token.query(token_hash(Channel.APNS, gone.token))), "a dead token is still taken"
        assert 1 <= _delayed(self._held_url) <= 2, "a held push is not in the held queue once, or twice after a crash"
        dead = Counter(_drain(self.deployment.dead_letter_url))
        assert dead[self._refused.subscription_id], "a refused push is not in the dead-letter queue"
        assert set(dead) == {self._refused.subscription_id}, "a dead letter that was not refused"


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
def _served(apns: Apns) -> Iterator[Apns]:
    """In a thread of its own, as the transport blocks the one it is called in."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(apns.__aenter__(), loop).result()
        yield apns
    finally:
        asyncio.run_coroutine_threadsafe(apns.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def scenario(folder: Path) -> Iterator[Scenario]:
    """With a stand-in for APNs, which keeps its certificates in `folder`."""
    localhost, key, sqs = tls.issue(folder), keys.generate_apns_key(), boto3.client("sqs")
    secret = {"key_id": key.key_id, "team_id": key.team_id, "private_key": key.private_key}
    boto3.client("secretsmanager").create_secret(Name="crash-apns", SecretString=json.dumps(secret))
    dead_letter_url = sqs.create_queue(QueueName="crash-dead")["QueueUrl"]
    cleanup_url = sqs.create_queue(QueueName="crash-cleanup")["QueueUrl"]
    transport = Transport(str(localhost.ca_file))
    stand_in = Apns(localhost.server_context(), known=[key], topics=[BUNDLE], options=Options(now=lambda: NOW))
    with _served(stand_in) as apns:
        deployment = Deployment(apns, transport, tables.bind(PREFIX), dead_letter_url, cleanup_url)
        try:
            yield Scenario("dispatch", lambda: Dispatching(deployment))
        finally:
            transport.close()
