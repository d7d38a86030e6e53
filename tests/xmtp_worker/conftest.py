import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from clarion import subscriptions, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.messages import PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import Installation, bucket_of, note_keys, registered, subscription_id_of
from clarion.networks.xmtp.rules import TopicCondition, key_of, pack, read, topic_of
from clarion.networks.xmtp.sender_hmac import KEY_SIZE_V3, PERIOD_S
from clarion.rulesets import Owner, RequestContext, RuleSets
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token
from tests.events import event_log
from tests.match.scene import credentials
from xmtp.hourly import Hourly

if TYPE_CHECKING:
    from pynamodb.connection import Connection

PERIOD = 700
NOW = (PERIOD * PERIOD_S + 10 * 86_400) * 1000
"""After the week in which the buckets come of age, one by one."""
CLIENT = b"a client"


class Clock:
    """UNIX milliseconds; moves only by `advance`, or when it is set."""

    now = NOW

    def __call__(self) -> int:
        return self.now

    @property
    def seconds(self) -> int:
        return self.now // 1000

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Account:
    """The tables and queues, and installations as the API makes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.buckets = [0]
        """Of all installations: each bucket takes the worker two queries."""
        self.connection: Connection = tables.bind("", own=[Installation])
        self._rule_sets = RuleSets(self.connection, limit=1000, request_cleanup=lambda *_: None)
        for model in (Subscription, Token, RuleRow, Installation):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        self.sqs = boto3.client("sqs")
        names = (*Channel, "cleanup", "dead")
        self.queues = {name: self.sqs.create_queue(QueueName=name)["QueueUrl"] for name in names}
        boto3.client("s3").create_bucket(Bucket="lake")
        lake = {"RoleARN": "arn:aws:iam::123456789012:role/lake", "BucketARN": "arn:aws:s3:::lake"}
        boto3.client("firehose").create_delivery_stream(
            DeliveryStreamName="lake",
            ExtendedS3DestinationConfiguration=lake,  # type: ignore[arg-type] # the stub's TypedDict
        )

    def install(
        self, name: str, channel: Channel = Channel.APNS, *, newest: int | None = None, **others: Any
    ) -> Subscription:
        """Registered now, with one key if `newest` says for which period."""
        subscription_id = subscription_id_of(CLIENT, name)
        self.buckets.append(bucket_of(name))
        registration = Registration(XMTP, CLIENT, channel, f"token of {name}", subscription_id=subscription_id)
        row = subscriptions.register(self.connection, registration, now=self._clock())
        assert isinstance(row, Subscription)
        row.update([getattr(Subscription, key).set(value) for key, value in others.items()] or [_no_change(row)])
        self.renew(name)
        if newest is not None:
            self.subscribe(name, {"a topic": [newest]})
        return row

    def renew(self, name: str) -> None:
        Installation(subscription_id_of(CLIENT, name)).update(list(registered(name, self._clock.seconds)))

    def subscribe(self, name: str, topics: Mapping[str, Collection[int]], silent: Collection[str] = ()) -> None:
        """To topics, each with keys of some periods."""
        given = {
            key_of(topic): pack(TopicCondition({each: self.hmac_key(each) for each in periods}, topic in silent))
            for topic, periods in topics.items()
        }
        subscription_id = subscription_id_of(CLIENT, name)
        note_keys(subscription_id, name, max(each for periods in topics.values() for each in periods))
        self._rule_sets.add(subscription_id, Owner(XMTP, CLIENT), given, RequestContext(self._clock()))

    def unsubscribe(self, name: str, topic: str) -> None:
        subscription_id, owner = subscription_id_of(CLIENT, name), Owner(XMTP, CLIENT)
        self._rule_sets.discard(subscription_id, owner, [key_of(topic)], RequestContext(self._clock()))

    @staticmethod
    def hmac_key(period: int) -> bytes:
        return period.to_bytes(2) * (KEY_SIZE_V3 // 2)

    def conditions(self, row: Subscription) -> dict[str, TopicCondition]:
        """By topic; of whatever generation."""
        return {topic_of(rule.key): read(rule.condition or b"") for rule in RuleRow.query(row.subscription_id)}

    def periods(self, row: Subscription) -> dict[str, list[int]]:
        """Of the keys that are stored, by topic."""
        return {topic: sorted(condition.hmac_keys) for topic, condition in self.conditions(row).items()}

    def installation(self, row: Subscription) -> Installation | None:
        return next(iter(Installation.batch_get([row.subscription_id], consistent_read=True)), None)

    def drain(self, name: str) -> list[str]:
        bodies, url = [], self.queues[name]
        while found := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            bodies += [message["Body"] for message in found]
            for message in found:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def pushes(self) -> list[PushMessage]:
        """Since the last look."""
        return [PushMessage.model_validate_json(body) for channel in Channel for body in self.drain(channel)]

    def events(self) -> list[dict[str, Any]]:
        """Since the last look."""
        s3, lines = boto3.client("s3"), list[str]()
        for found in s3.list_objects_v2(Bucket="lake").get("Contents", ()):
            lines += s3.get_object(Bucket="lake", Key=found["Key"])["Body"].read().decode().splitlines()
            s3.delete_object(Bucket="lake", Key=found["Key"])
        return [json.loads(line) for line in lines]


def _no_change(row: Subscription) -> Any:
    return Subscription.updated_at.set(row.updated_at)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Account]:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield Account(clock)


@pytest.fixture
def new_hourly(account: Account, clock: Clock) -> Callable[..., Hourly]:
    def new_hourly(*channels: Channel) -> Hourly:
        return Hourly(
            connection=account.connection,
            sqs=account.sqs,
            push_queues={channel: account.queues[channel] for channel in channels or Channel},
            cleanup=CleanupQueue(account.sqs, account.queues["cleanup"]),
            events=event_log(),
            clock=clock,
            buckets=account.buckets,
            threads=1,  # moto keeps no conditions when several threads call it at once
        )

    return new_hourly


@pytest.fixture
def hourly(new_hourly: Callable[..., Hourly]) -> Hourly:
    return new_hourly()
