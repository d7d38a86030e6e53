"""Scenario: messages of SimpleX through match and dispatch. Two queues with two messages each, of which the limit holds
one back, and a third queue that sends while the first push is on its way, to a device that is out of reach at first.

Whatever happens between any two requests, the device has been pushed the newest message of each queue at the end.
"""

import json
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
from nacl.public import Box

from clarion import newest, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.decisions import Environment, Purpose
from clarion.messages import EnvelopeMessage, PushMessage
from clarion.networks import SIMPLEX, Rule
from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.composing import sealed_for_dispatch
from clarion.networks.simplex.encoding import Reader
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.items import MessageArrived
from clarion.networks.simplex.needs import ITEMS, STORAGE_KEY
from clarion.networks.simplex.rules import key_of, queue_key
from clarion.networks.simplex.storage_key import StorageKey
from clarion.newest import NewestRow
from clarion.providers.apps import Apps
from clarion.providers.transport import Transport
from clarion.secrets import Secret, SharedSecret
from clarion.tables import Subscription
from dispatch.batch import Dispatcher
from dispatch.queue import Delivery, PushQueue
from local import tls
from local.provider import InjectedFault
from match.settings import MatchSettings
from match.worker import MatchClients
from tests.crash.contents import NOW
from tests.crash.dispatching import APP, FAILED, PATIENT, SECRET, ByApns, by_apns, served
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.events import event_log
from tests.match.scene import PREFIX, InTurn, Scene, received

SECONDS_BETWEEN_DELIVERIES = 180
LIMIT = {"count": 1, "window_seconds": 60, "cooldown_seconds": 120}
TEXT, AGREED = "s" * 64, b"a" * 32
TABLE = f"{PREFIX}{ITEMS}"


@dataclass(frozen=True)
class Stages:
    settings: MatchSettings
    clients: MatchClients
    way: ByApns
    transport: Transport

    def dispatcher(self, queue_url: str) -> Dispatcher:
        sqs, secrets = boto3.client("sqs"), boto3.client("secretsmanager")
        return Dispatcher(
            apps=Apps(APP, {(APP, Environment.PRODUCTION): self.way.app(APP)}),
            transport=self.transport,
            connection=tables.bind(PREFIX),
            queue=PushQueue(sqs, queue_url, None, None),
            cleanup=CleanupQueue(sqs, queue_url),
            events=event_log(),
            clock=lambda: NOW,
            payload_secrets={SIMPLEX: Secret(secrets, STORAGE_KEY, SharedSecret)},
            table_prefix=PREFIX,
            writers=ThreadPoolExecutor(1),
        )


@dataclass
class NewestRun:
    stages: Stages

    def __post_init__(self) -> None:
        self._numbers, self._nonces = count(), count(1)
        self._scene = Scene(self.stages.settings, self.stages.clients)
        self._push_url = self.stages.settings.push_queues[Channel.APNS]
        self._envelopes, self._pushes = dict[str, str](), dict[str, str]()
        self._newest = dict[SmpQueue, bytes]()
        self._server = SmpServer((f"{uuid4()}.example.com",), "", bytes(32))
        self._queues = [SmpQueue(self._server, uuid4().bytes) for _ in range(3)]
        self._subscription = self._subscribe()
        for one in (*self._queues[:2], self._queues[0]):
            self._arrive(one)
        self._meanwhile = [self._queues[2], self._queues[1]]
        self.stop()

    def _subscribe(self) -> Subscription:
        row = self._scene.subscribe_to(SIMPLEX, [Rule(key_of(queue_key(one))) for one in self._queues])
        sealed = sealed_for_dispatch(StorageKey(TEXT.encode()), row.subscription_id, AGREED, b"c" * 32)
        token = self.stages.way.device(InjectedFault("ServiceUnavailable", times=1))
        row.update([Subscription.token.set(token), Subscription.network_data.set(sealed), Subscription.app.set(APP)])
        return row

    def _arrive(self, queue: SmpQueue) -> None:
        self._newest[queue] = nonce = next(self._nonces).to_bytes(24)
        self._scene.clock.advance(0.01)
        raw = encode(queue, self._scene.clock() // 1000, MessageArrived(nonce, b"metadata"))
        message: EnvelopeMessage = self._scene.show(SIMPLEX, raw)
        self._envelopes[str(next(self._numbers))] = message.to_json()

    # ---- what the harness asks for ----------------------------------------------------------------------------

    def deliver(self) -> bool:
        self._match()
        self._collect()
        self._dispatch()
        if self._envelopes or self._pushes:
            return False
        for one in self._meanwhile:
            self._arrive(one)
        self._meanwhile = []
        return not self._envelopes

    def _match(self) -> None:
        if not self._envelopes:
            return
        records = [received(number, body) for number, body in self._envelopes.items()]
        try:
            unfinished = self._scene.worker.handle(records)
        finally:
            self._scene.clock.advance(SECONDS_BETWEEN_DELIVERIES)
        wire.step(RETURN)
        self._envelopes = {number: body for number, body in self._envelopes.items() if number in unfinished}

    def _collect(self) -> None:
        """Pushes that were sent, without the time that they are delayed for."""
        with wire.aside():
            for body in self._scene.queues.drain(Channel.APNS):
                self._pushes[str(next(self._numbers))] = body

    def _dispatch(self) -> None:
        """Late ones last, as they come."""
        late = {name for name, body in self._pushes.items() if _is_late(body)}
        now = self._pushes.keys() - late or (late if not self._envelopes else set())
        if not now:
            return
        records = [received(name, self._pushes[name]) for name in sorted(now)]
        try:
            report = self._dispatcher.run([Delivery.of(record) for record in records])
            self._dispatcher.events.flush()
        except FAILED:
            return
        wire.step(RETURN)
        self._pushes = {
            name: body for name, body in self._pushes.items() if name not in now.difference(report.unfinished)
        }

    def stop(self) -> None:
        with wire.aside():
            self._scene = self._scene.elsewhere()
            self._dispatcher = self.stages.dispatcher(self._push_url)

    def check(self) -> None:
        arrived = [push for push in self.stages.way.stand_in.received if push.accepted]
        mine = [push for push in arrived if push.token in self._subscription.token]
        brought = {nonce for push in mine for nonce in _nonces(push.payload)}
        missing = {*self._newest.values()} - brought
        assert not missing, f"{len(missing)} of {len(self._newest)} queues' newest message never arrived"
        row = self._row()
        assert row.sent == row.number or not row.number, "something was left that no push is on its way for"

    def _row(self) -> NewestRow:
        key = {"subscription_id": {"S": self._subscription.subscription_id}}
        return newest.read_item(boto3.client("dynamodb").get_item(TableName=TABLE, Key=key).get("Item", {}))


def _is_late(body: str) -> bool:
    return PushMessage.model_validate_json(body).purpose is Purpose.REFRESH


def _nonces(payload: Any) -> Iterator[bytes]:
    data = payload["notificationData"]
    padded = Box.decode(AGREED).decrypt(urlsafe_b64decode(data["message"]), urlsafe_b64decode(data["nonce"]))
    for item in Reader(padded).long().decode().split(";"):
        yield urlsafe_b64decode(item.split(" ")[2])


@contextmanager
def scenario(environment: dict[str, str], folder: Path) -> Iterator[Scenario]:
    """With a stand-in for the provider, which keeps its certificates in `folder`."""
    localhost = tls.issue(folder)
    way, secret = by_apns(localhost)
    secrets = {SECRET: secret, STORAGE_KEY: json.dumps({"secret": TEXT})}
    for name, content in secrets.items():
        boto3.client("secretsmanager").create_secret(Name=name, SecretString=content)
    boto3.client("dynamodb").create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
    )
    settings = MatchSettings.from_environment(environment | {"CLARION_LIMITS": json.dumps({SIMPLEX: LIMIT})})
    clients = MatchClients.make(PREFIX)._replace(executor=InTurn())
    clients.sqs.meta.events.register("provide-client-params.sqs.SendMessageBatch", _without_delay)
    transport = Transport(str(localhost.ca_file), PATIENT)
    with served(way.stand_in):
        try:
            yield Scenario("newest items", lambda: NewestRun(Stages(settings, clients, way, transport)))
        finally:
            transport.close()
            boto3.client("dynamodb").delete_table(TableName=TABLE)
            for name in secrets:
                boto3.client("secretsmanager").delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


def _without_delay(params: dict[str, Any], **_: object) -> None:
    for entry in params["Entries"]:
        entry.pop("DelaySeconds", None)
