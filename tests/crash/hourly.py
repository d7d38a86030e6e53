"""Scenario: what XMTP's worker does in an hour, for installations of which each has something else due."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from uuid import uuid4

import boto3
from pynamodb.connection import Connection

from clarion import subscriptions, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue, erase_dead
from clarion.decisions import SubscriptionStatus
from clarion.generations import NEVER
from clarion.messages import CleanupMessage, PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import (
    GRACE_S,
    VALID_S,
    WEEK_S,
    Installation,
    registered,
    subscription_id_of,
)
from clarion.networks.xmtp.rules import TopicCondition, key_of, pack, read
from clarion.networks.xmtp.sender_hmac import KEY_SIZE_V3, PERIOD_S
from clarion.rulesets import TRANSACTION_RULES, Owner, RequestContext, RuleSets
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token
from clarion.tokens import token_hash
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.events import event_log
from tests.match.scene import PREFIX
from xmtp.hourly import Hourly

PERIOD = 700
NOW = PERIOD * PERIOD_S + 20 * 86_400
"""UNIX seconds."""
OLD, SERVING = PERIOD - 2, PERIOD
ASKED = ("out of keys", "about to end")
TOPICS = {"old keys": 1, "many old keys": TRANSACTION_RULES + 1}
OVER = "over"
_buckets = count()


@dataclass
class Hour:
    connection: Connection
    queues: dict[str, str]

    def __post_init__(self) -> None:
        self._client_id, self._bucket = uuid4().bytes * 2, next(_buckets)
        self._owner = Owner(XMTP, self._client_id)
        self._install("out of keys", NOW - 86_400)
        self._subscribe("out of keys", 1, [SERVING])
        self._make_due("out of keys", asked=0)
        self._install("about to end", NOW - VALID_S + WEEK_S)
        self._install(OVER, NOW - VALID_S - GRACE_S)
        self._subscribe(OVER, 1)
        for name, topics in TOPICS.items():
            self._install(name, NOW - 86_400)
            self._subscribe(name, topics)
            self._make_due(name, asked=NOW - WEEK_S)
        self.stop()

    def _name(self, name: str) -> str:
        return subscription_id_of(self._client_id, name)

    def _token(self, name: str) -> str:
        return f"{self._client_id.hex()} {name}"

    def _install(self, name: str, at: int) -> None:
        registration = Registration(*self._owner, Channel.APNS, self._token(name), subscription_id=self._name(name))
        subscriptions.register(self.connection, registration, now=at * 1000)
        Installation(self._name(name)).update(registered(name, at))
        Installation(self._name(name)).update([Installation.bucket.set(self._bucket)])

    def _make_due(self, name: str, asked: int) -> None:
        """Its keys; `asked` is when it was sent a refresh."""
        Installation(self._name(name)).update([Installation.keys_due.set(NOW - 1), Installation.asked_at.set(asked)])

    def _subscribe(self, name: str, topics: int, periods: Sequence[int] = (OLD, SERVING)) -> None:
        keys = {period: period.to_bytes(2) * (KEY_SIZE_V3 // 2) for period in periods}
        rules = {key_of(f"/xmtp/mls/1/g-{number:04x}/proto"): pack(TopicCondition(keys)) for number in range(topics)}
        sets = RuleSets(self.connection, limit=1000, request_cleanup=lambda *_: None)
        sets.replace(self._name(name), self._owner, rules, RequestContext(NOW * 1000))

    def deliver(self) -> bool:
        try:
            report = self._hourly.run(NEVER)
            self._hourly.events.flush()
            wire.step(RETURN)
        except FAILED:
            return False
        return report.finished and not report.failed

    def stop(self) -> None:
        with wire.aside():
            sqs = boto3.client("sqs")
            self._hourly = Hourly(
                connection=self.connection,
                sqs=sqs,
                push_queues={Channel.APNS: self.queues[Channel.APNS]},
                cleanup=CleanupQueue(sqs, self.queues["cleanup"]),
                events=event_log(),
                clock=lambda: NOW * 1000,
                threads=1,  # moto keeps no conditions when several threads call it at once
                buckets=[self._bucket],
            )

    def check(self) -> None:
        for request in map(CleanupMessage.model_validate_json, self._drain("cleanup")):
            for name in map(str, request.subscription_ids):
                erase_dead(self.connection, name, request.through)
        self._check_pushes()
        self._check_keys()
        self._check_end()

    def _check_pushes(self) -> None:
        """A refresh may be repeated, but then it is recognised by its id."""
        found = [PushMessage.model_validate_json(body) for body in self._drain(Channel.APNS)]
        own = {(str(one.subscription_id), one.envelope_id) for one in found if one.client_id == self._client_id}
        asked = Counter(name for name, _ in own)
        assert asked == Counter(map(self._name, ASKED)), "not each that is to be asked was sent one refresh, or others"
        for name in ASKED:
            assert Installation.get(self._name(name)).asked_at == NOW, f"{name}: it is not noted that it was asked"

    def _check_keys(self) -> None:
        for name, topics in TOPICS.items():
            found = [read(rule.condition or b"") for rule in RuleRow.query(self._name(name), consistent_read=True)]
            assert [list(one.hmac_keys) for one in found] == [[SERVING]] * topics, (
                f"{name}: they are not as they should be"
            )
            assert Subscription.get(self._name(name)).rule_count == topics, (
                f"{name}: the subscription miscounts its rules"
            )
            assert (Installation.get(self._name(name)).keys_due or 0) > NOW, f"{name}: the keys are due again, or never"

    def _check_end(self) -> None:
        name = self._name(OVER)
        assert Subscription.get(name).status == SubscriptionStatus.INVALID, "what is over has not ended"
        assert not Token.count(token_hash(Channel.APNS, self._token(OVER))), "its token is not free"
        assert not list(Installation.batch_get([name], consistent_read=True)), "its row is left over"
        assert not RuleRow.count(name, consistent_read=True), "its rules are left over"

    def _drain(self, queue: str) -> list[str]:
        sqs, url, bodies = boto3.client("sqs"), self.queues[queue], list[str]()
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for each in found:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                bodies.append(each["Body"])
        return bodies


def scenario() -> Scenario:
    connection = tables.bind(PREFIX, own=[Installation])
    Installation.create_table(billing_mode="PAY_PER_REQUEST")
    sqs = boto3.client("sqs")
    queues = {
        name: sqs.create_queue(QueueName=f"crash-hourly-{name}")["QueueUrl"] for name in (Channel.APNS, "cleanup")
    }
    return Scenario("hourly", lambda: Hour(connection, queues))
