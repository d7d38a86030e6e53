"""Scenario: two devices of a Zulip server are registered and pushed to. The token of one is found dead, which its server
learns by `notify` and by `expired`; registered anew, it is pushed to again.

Whatever gets no answer is asked for again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import boto3

from api.networks.zulip.settings import ZulipSettings
from api.networks.zulip.token_ids import number_of
from api.networks.zulip.worker import ZulipWorker
from clarion import tables
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.messages import PushMessage
from clarion.networks.zulip.devices import device_id
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.payload import ZulipBody
from clarion.networks.zulip.servers import MODELS
from clarion.tables import Token, find_subscription
from clarion.tokens import hash_of
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.match.scene import NOW, PREFIX, InTurn
from tests.zulip import KEYS, CallingServer, Clock, Reply, ZulipDevice, android, settings_of

MINUTE = 60
"""Seconds."""
ACCOUNT = 17


@dataclass
class Bouncing:
    """Each step takes a minute, whether it is done again or not."""

    settings: ZulipSettings

    def __post_init__(self) -> None:
        self._clock = Clock(NOW)
        with wire.aside():
            self._server = CallingServer(self._new_router(), self._clock)
            self._server.admit()
        self._shipped, self._proposed, self._account_id = ZulipDevice(), android(), ""
        number = number_of(self._shipped.token_id)
        self._shipped_id = device_id(self._server.uuid, self._server.realm, number)
        self._steps: list[Callable[[], bool]] = [
            self._register,
            self._register_account,
            lambda: self._notify("before"),
            self._die,
            lambda: self._notify("dead", gone=True),
            self._ask_who_has_expired,
            self._register,
            lambda: self._notify("after"),
        ]

    def deliver(self) -> bool:
        try:
            while self._steps:
                done = self._steps[0]()
                wire.step(RETURN)
                if not done:
                    return False
                del self._steps[0]
                self._clock.pass_seconds(MINUTE)
        except FAILED:
            return False
        return True

    def stop(self) -> None:
        with wire.aside():
            self._server.worker = self._new_router()

    def check(self) -> None:
        rows = {row.subscription_id: row for row in self._server.rows()}
        assert rows.keys() == {self._shipped_id, self._account_id}, "there is not one row for each device"
        for row in rows.values():
            assert row.status == SubscriptionStatus.ACTIVE, "a device is not active"
            holders = [token.subscription_id for token in Token.query(hash_of(row))]
            assert holders == [row.subscription_id], "a device does not hold its token"
        self._check_pushes()

    def _check_pushes(self) -> None:
        """A push may be repeated, under the same id."""
        own = [push for push in self._queued() if push.client_id == self._server.uuid.bytes]
        contents = {push.receipt: (str(push.subscription_id), _content(push)) for push in own}
        wanted = [(self._account_id, text) for text in ("before", "dead", "after")]
        wanted += [(self._shipped_id, text) for text in ("before", "after")]
        assert sorted(contents.values()) == sorted(wanted), "what is queued is not what was asked for"

    def _queued(self) -> list[PushMessage]:
        """Those of other runs, too, that were given up."""
        sqs, found = boto3.client("sqs"), list[PushMessage]()
        for url in self.settings.push_queues.values():
            while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
                for message in messages:
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                    found.append(PushMessage.model_validate_json(message["Body"]))
        return found

    def _new_router(self) -> ZulipWorker:
        return replace(ZulipWorker.serving(self.settings), senders=InTurn(), now=self._clock)

    def _register(self) -> bool:
        return _answered(self._server.register(self._shipped)) is not None

    def _register_account(self) -> bool:
        answered = _answered(self._server.register(self._proposed, token_id=None, push_account_id=ACCOUNT))
        if answered:
            self._account_id = answered["device_id"]
        return answered is not None

    def _notify(self, text: str, *, gone: bool = False) -> bool:
        push = {"device_id": self._account_id, "encrypted_content": text}
        shipped = _answered(self._server.notify(self._shipped.push(text)))
        proposed = _answered(self._server.notify_accounts(push))
        if shipped is None or proposed is None:
            return False
        self._check_named(shipped, gone=gone)
        return True

    def _die(self) -> bool:
        """As dispatch records it."""
        with wire.aside():
            row = find_subscription(self._shipped_id)
        assert row is not None, "the device is not there"
        declare_dead(self._server.worker.connection, row, Death("Unregistered", at=self._clock.now))
        return True

    def _ask_who_has_expired(self) -> bool:
        answered = _answered(self._server.expired())
        if answered is None:
            return False
        self._check_named(answered, gone=True)
        return True

    def _check_named(self, answered: Mapping[str, Any], *, gone: bool) -> None:
        named = [self._shipped.token_id] if gone else []
        assert answered["delete_token_ids"] == named, "the server is not told of the device as it is"


def _answered(reply: Reply) -> Mapping[str, Any] | None:
    """None if it is to be asked again."""
    assert reply.status in {200, 503}, f"the answer is {reply.json}"
    return reply.json if reply.status == 200 else None


def _content(push: PushMessage) -> str:
    assert isinstance(push.body, ZulipBody)
    return push.body.root.content.sealed


def set_up() -> ZulipSettings:
    """The tables, and the secret."""
    tables.bind(PREFIX, own=MODELS)
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    boto3.client("secretsmanager").create_secret(Name=BOUNCER_SECRET, SecretString=KEYS.text)
    sqs = boto3.client("sqs")
    return settings_of(PREFIX, "late_events", {name: sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in Channel})


def scenario() -> Scenario:
    settings = set_up()
    return Scenario("bouncing", lambda: Bouncing(settings))
