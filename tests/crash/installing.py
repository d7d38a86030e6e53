"""Scenario: an installation of XMTP subscribes, before it registers and after, with the token of another one of its
client, which ends by that. A third one is deleted.

Whatever gets no answer is asked for again. Wherever the process stops, the keys that are stored by then are noted.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any
from uuid import uuid4

import boto3
from pynamodb.connection import Connection

from api.networks.xmtp.router import answer
from api.networks.xmtp.service import XmtpWorker
from api.networks.xmtp.settings import XmtpSettings
from clarion import tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue, erase_dead
from clarion.decisions import SubscriptionStatus
from clarion.messages import CleanupMessage
from clarion.networks import XMTP
from clarion.networks.xmtp import rules
from clarion.networks.xmtp.installations import Installation, subscription_id_of, valid_until
from clarion.networks.xmtp.sender_hmac import PERIOD_S, period_at
from clarion.proofs import PENDING_MS
from clarion.rulesets import RuleSets
from clarion.tables import RuleRow, Subscription, Token, WakeUp, rule_key
from clarion.tokens import token_hash
from clarion.wake_ups import expiry_slot
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.match.scene import PREFIX
from tests.xmtp import TOPIC, WELCOMES, Inbox

PERIOD = 700
NOW = PERIOD * PERIOD_S + 10 * 86_400
"""UNIX seconds."""
KEYS = Inbox(b"alix").keys(PERIOD - 1)
"""The newest is that of the current period."""
INSTALLATION, DELETED, REPLACED = "install1", "install2", "install3"
OTHER = "/xmtp/mls/1/g-00ff/proto"
_clients = count(1)


@dataclass
class Installing:
    connection: Connection
    cleanup_url: str

    def __post_init__(self) -> None:
        self._client_id, self._token = uuid4().bytes * 2, f"{next(_clients):064x}"
        names = INSTALLATION, DELETED, REPLACED
        self._name, *self._gone = (subscription_id_of(self._client_id, one) for one in names)
        keys = [{"thirtyDayPeriodsSinceEpoch": period, "key": b64encode(key).decode()} for period, key in KEYS.items()]
        topics = [{"topic": TOPIC, "hmacKeys": keys}, {"topic": WELCOMES, "isSilent": True}]
        mechanism = {"apnsDeviceToken": self._token}
        self._calls: list[tuple[str, Mapping[str, Any]]] = [
            ("RegisterInstallation", {"installationId": REPLACED, "deliveryMechanism": mechanism}),
            ("Subscribe", {"installationId": REPLACED, "topics": [OTHER]}),
            ("SubscribeWithMetadata", {"subscriptions": [{"topic": OTHER, "hmacKeys": keys}]}),
            ("RegisterInstallation", {"deliveryMechanism": mechanism}),
            ("Subscribe", {"topics": [TOPIC, OTHER]}),
            ("SubscribeWithMetadata", {"subscriptions": topics}),
            ("Unsubscribe", {"topics": [OTHER]}),
            ("Subscribe", {"installationId": DELETED, "topics": [TOPIC]}),
            ("DeleteInstallation", {"installationId": DELETED}),
        ]
        self.stop()

    def deliver(self) -> bool:
        try:
            while self._calls:
                done = self._answered(*self._calls[0])
                wire.step(RETURN)
                if not done:
                    return False
                del self._calls[0]
        except FAILED:
            return False
        return True

    def _answered(self, method: str, message: Mapping[str, Any]) -> bool:
        event = {
            "rawPath": f"/notifications.v1.Notifications/{method}",
            "headers": {"content-type": "application/json"},
            "requestContext": {"authorizer": {"lambda": {"client_id": self._client_id.hex()}}},
            "body": json.dumps({"installationId": INSTALLATION, **message}),
            "isBase64Encoded": False,
        }
        return bool(answer(event, self._router)["statusCode"] == 200)

    def stop(self) -> None:
        with wire.aside():
            self._check_noted()
            sqs = boto3.client("sqs")
            cleanup = CleanupQueue(sqs, self.cleanup_url)
            settings = XmtpSettings(
                network=XMTP,
                table_prefix=PREFIX,
                events_stream="lake",
                late_events_queue_url="late-events",
                cleanup_queue_url=self.cleanup_url,
                apps=json.dumps({Channel.APNS: ["first"]}),
                first_app="first",
                push_queues=json.dumps({Channel.APNS: sqs.get_queue_url(QueueName=Channel.APNS)["QueueUrl"]}),
            )
            made = XmtpWorker.serving(settings, kept_beside=Installation)
            sets = RuleSets(made.connection, limit=100, request_cleanup=cleanup.send_claim, sleep=lambda _: None)
            self._router = replace(made, rule_sets=sets, now=lambda: NOW * 1000)

    def check(self) -> None:
        self._clean_up(self.cleanup_url)
        row = Subscription.get(self._name, consistent_read=True)
        assert row.status == SubscriptionStatus.ACTIVE, "the subscription is not active"
        holders = [token.subscription_id for token in Token.query(token_hash(Channel.APNS, self._token))]
        assert holders == [self._name], "the address is not the subscription's"
        self._check_rules(row)
        self._check_refresh()
        self._check_gone()

    def _clean_up(self, url: str) -> None:
        """As the queue's function would, of this run's subscriptions."""
        sqs = boto3.client("sqs")
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for each in found:
                message = CleanupMessage.model_validate_json(each["Body"])
                sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                for name in {self._name, *self._gone} & {str(one) for one in message.subscription_ids}:
                    erase_dead(self.connection, name, message.through)

    def _check_rules(self, row: Subscription) -> None:
        first, end = (rule_key(int(row.generation) + more, b"") for more in (0, 1))
        found = {
            rules.topic_of(rule.key): rules.unpack(rule.condition or b"")
            for rule in RuleRow.query(self._name, RuleRow.rule_key.between(first, end))
        }
        near = {period: key for period, key in KEYS.items() if abs(period - PERIOD) <= 1}
        assert found == {
            TOPIC: rules.TopicCondition(near),
            WELCOMES: rules.TopicCondition(silent=True),
        }, "the topics or their keys are not what was asked for"
        assert row.rule_count == len(found), "the subscription miscounts its rules"
        assert RuleRow.count(self._name, consistent_read=True) == len(found), "rules are left over"

    def _check_refresh(self) -> None:
        """The newest key is that of the current period: the app is to be asked for another."""
        installation = Installation.get(self._name, consistent_read=True)
        assert installation.installation_id == INSTALLATION, "it has another name"
        assert installation.valid_until == valid_until(NOW), "it is valid for another time"
        assert installation.keys_due, "its keys are never looked at"
        assert period_at(int(installation.keys_due)) == PERIOD, "its keys are not looked at in this period"

    def _check_noted(self) -> None:
        stored = [rule for rule in RuleRow.query(self._name) if rules.unpack(rule.condition or b"").hmac_keys]
        noted = [row for row in Installation.batch_get([self._name]) if row.keys_due]
        assert noted or not stored, "there are keys that are never looked at"

    def _check_gone(self) -> None:
        for name in self._gone:
            assert RuleRow.count(name, consistent_read=True) == 0, "rules of what is gone are left over"
        for model in (Subscription, Installation):
            assert not list(model.batch_get(self._gone)), f"{model.__name__} outlives what is gone"
        slot = expiry_slot((NOW * 1000 + PENDING_MS) // 3_600_000)
        waiting = list(WakeUp.batch_get([(slot, name) for name in (self._name, *self._gone)]))
        assert not waiting, "something still waits to expire"


def scenario() -> Scenario:
    connection = tables.bind(PREFIX, own=[Installation])
    Installation.create_table(billing_mode="PAY_PER_REQUEST")
    cleanup_url = boto3.client("sqs").create_queue(QueueName="crash-installing-cleanup")["QueueUrl"]
    return Scenario("installing", lambda: Installing(connection, cleanup_url))
