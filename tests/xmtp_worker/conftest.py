import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from clarion import subscriptions, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.events import EventLog
from clarion.messages import PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import Installation, note_keys, registered, subscription_id_of
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token
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
        self.connection: Connection = tables.bind("", own=[Installation])
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
        """Registered now, with keys up to the period `newest`."""
        subscription_id = subscription_id_of(CLIENT, name)
        registration = Registration(XMTP, CLIENT, channel, f"token of {name}", subscription_id=subscription_id)
        row = subscriptions.register(self.connection, registration, now=self._clock())
        assert isinstance(row, Subscription)
        row.update([getattr(Subscription, key).set(value) for key, value in others.items()] or [_no_change(row)])
        self.renew(name)
        if newest is not None:
            note_keys(subscription_id, newest)
        return row

    def renew(self, name: str) -> None:
        Installation(subscription_id_of(CLIENT, name)).update(list(registered(name, self._clock.seconds)))

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
            events=EventLog(boto3.client("firehose"), "lake"),
            clock=clock,
            threads=1,  # moto keeps no conditions when several threads call it at once
        )

    return new_hourly


@pytest.fixture
def hourly(new_hourly: Callable[..., Hourly]) -> Hourly:
    return new_hourly()
