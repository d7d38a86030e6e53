"""Scenario: two devices of a Zulip server are registered and pushed to. One's token is found dead, which its server is told
of by `notify` and by `expired`; registered anew it is pushed to again.

Whatever gets no answer is asked for again.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import boto3
from nacl.public import PrivateKey, SealedBox

from api.networks.zulip.router import answer
from api.networks.zulip.settings import ZulipSettings
from api.networks.zulip.token_ids import number_of
from api.networks.zulip.worker import ZulipWorker
from clarion import tables
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.messages import PushMessage
from clarion.networks.zulip.devices import device_id
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET, ROOT
from clarion.networks.zulip.payload import ZulipBody
from clarion.networks.zulip.registration import IOS_APP_ID, token_id_of
from clarion.networks.zulip.servers import MODELS, Realm, RealmState, Server, ServerState, key_hash
from clarion.tables import Subscription, Token, find_subscription
from clarion.tokens import hash_of
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.match.scene import NOW, PREFIX, InTurn

BOUNCER = PrivateKey.generate()
PUBLIC = b64encode(bytes(BOUNCER.public_key)).decode()
MINUTE = 60_000
"""Milliseconds."""

type Step = Callable[[], bool]


@dataclass
class Bouncing:
    """`now` moves on with each step that is done."""

    settings: ZulipSettings

    def __post_init__(self) -> None:
        self._server, self._realm, self._key = uuid4(), uuid4(), uuid4().hex * 2
        self._dying, self._account = uuid4().hex * 2, uuid4().hex
        self._dying_id = device_id(self._server, self._realm, number_of(token_id_of(self._dying)))
        self._account_id, self._now = "", NOW
        with wire.aside():
            self._admit()
        self._steps: list[Step] = [
            self._register,
            self._register_account,
            lambda: self._notifies("before"),
            self._die,
            lambda: self._notifies("dead", gone=True),
            self._expires,
            self._register,
            lambda: self._notifies("revived"),
        ]
        self.stop()

    def deliver(self) -> bool:
        try:
            while self._steps:
                done = self._steps[0]()
                wire.step(RETURN)
                if not done:
                    return False
                del self._steps[0]
                self._now += MINUTE
        except FAILED:
            return False
        return True

    def stop(self) -> None:
        with wire.aside():
            made = ZulipWorker.serving(self.settings)
            self._router = replace(made, senders=InTurn(), now=lambda: self._now)

    def check(self) -> None:
        ids = [row.subscription_id for row in Subscription.by_client.query(self._server.bytes)]
        assert sorted(ids) == sorted([self._dying_id, self._account_id]), "there is not one row for each device"
        for row in Subscription.batch_get(ids, consistent_read=True):
            assert row.status == SubscriptionStatus.ACTIVE, "a device is not active"
            holders = [token.subscription_id for token in Token.query(hash_of(row))]
            assert holders == [row.subscription_id], "the device's token is not its own"
        self._check_pushes()

    def _check_pushes(self) -> None:
        """A push may be repeated, recognisably."""
        own = [push for push in self._queued() if push.client_id == self._server.bytes]
        contents = {(str(push.subscription_id), push.receipt): _sealed_content(push) for push in own}
        to = {name: sorted(text for (each, _), text in contents.items() if each == name) for name, _ in contents}
        assert to == {
            self._dying_id: ["before", "revived"],
            self._account_id: ["before", "dead", "revived"],
        }, "what is queued is not what was asked for"

    def _queued(self) -> list[PushMessage]:
        """Also what other runs have left."""
        sqs, found = boto3.client("sqs"), list[PushMessage]()
        for url in self.settings.push_queues.values():
            while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
                for message in messages:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                    found.append(PushMessage.model_validate_json(message["Body"]))
        return found

    def _admit(self) -> None:
        active = ServerState.ACTIVE.value
        Server(str(self._server), key_hash=key_hash(self._key), state=active, created_at=NOW).save()
        row = {"server_uuid": str(self._server), "state": RealmState.ACTIVE.value, "created_at": NOW}
        Realm(str(self._realm), **row).save()

    def _register(self) -> bool:
        sealed = self._sealed(self._dying, "apns", IOS_APP_ID)
        return self._call("/push/e2ee/register", {"token_id": token_id_of(self._dying), **sealed}) is not None

    def _register_account(self) -> bool:
        answered = self._call(
            "/push/e2ee/register", {"push_account_id": 17, **self._sealed(self._account, "fcm", None)}
        )
        if answered:
            assert self._account_id in {"", answered["device_id"]}, "the device has got another id"
            self._account_id = answered["device_id"]
        return answered is not None

    def _notifies(self, text: str, *, gone: bool = False) -> bool:
        payload = {"push_key_id": 1, "encrypted_data": text}
        shipped = {
            "token_id": token_id_of(self._dying),
            "http_headers": {"apns_priority": 10, "apns_push_type": "alert"},
            "payload": {**payload, "aps": {"mutable-content": 1}},
        }
        proposed = {"device_id": self._account_id, "encrypted_content": text}
        answers = [
            self._call("/push/e2ee/notify", {"push_requests": [shipped]}),
            self._call("/push/e2ee/notify", {"notifications": [proposed]}),
        ]
        if None in answers:
            return False
        assert answers[0]["delete_token_ids"] == ([token_id_of(self._dying)] if gone else []), "it is named wrongly"
        return True

    def _die(self) -> bool:
        """As dispatch records it."""
        with wire.aside():
            row = find_subscription(self._dying_id)
        assert row is not None
        declare_dead(self._router.connection, row, Death("Unregistered", at=self._now))
        return True

    def _expires(self) -> bool:
        answered = self._call("/push/e2ee/expired", {}, method="GET")
        if answered:
            assert answered["delete_token_ids"] == [token_id_of(self._dying)], "the cron job is not told of it"
        return answered is not None

    def _sealed(self, token: str, kind: str, app: str | None) -> dict[str, str]:
        plain = {"token": token, "token_kind": kind, "ios_app_id": app, "timestamp": self._now // 1000}
        sealed = b64encode(SealedBox(BOUNCER.public_key).encrypt(json.dumps(plain).encode())).decode()
        return {"encrypted_push_registration": sealed, "bouncer_public_key": PUBLIC}

    def _call(self, path: str, content: Mapping[str, Any], *, method: str = "POST") -> Any:
        """The answer; None if it is to be asked again."""
        named = {"realm_uuid": str(self._realm), **content}
        credentials = b64encode(f"{self._server}:{self._key}".encode()).decode()
        event = {
            "rawPath": ROOT + path,
            "headers": {"authorization": f"Basic {credentials}", "content-type": "application/json"},
            "requestContext": {"http": {"method": method}},
            "queryStringParameters": named,
            "body": json.dumps(named),
            "isBase64Encoded": False,
        }
        found = answer(event, self._router)
        assert found["statusCode"] in {200, 503}, f"{path} is answered with {found['statusCode']}"
        return json.loads(found["body"]) if found["statusCode"] == 200 else None


def _sealed_content(push: PushMessage) -> str:
    assert isinstance(push.body, ZulipBody)
    return push.body.root.content.sealed


def scenario() -> Scenario:
    tables.bind(PREFIX, own=MODELS)
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    key = {"public": PUBLIC, "private": b64encode(bytes(BOUNCER)).decode(), "made_at": 0}
    keys = BouncerKeys.model_validate({"keys": [key]})
    boto3.client("secretsmanager").create_secret(Name=BOUNCER_SECRET, SecretString=keys.text)
    sqs = boto3.client("sqs")
    urls = {channel: sqs.get_queue_url(QueueName=channel)["QueueUrl"] for channel in (Channel.APNS, Channel.FCM)}
    settings = ZulipSettings(
        network="zulip",
        table_prefix=PREFIX,
        events_stream="lake",
        late_events_queue_url="late_events",
        secrets=json.dumps({BOUNCER_SECRET: BOUNCER_SECRET}),
        push_queues=json.dumps(urls),
        apns_apps=json.dumps({IOS_APP_ID: "first"}),
        fcm_app="first",
    )
    return Scenario("bouncing", lambda: Bouncing(settings))
