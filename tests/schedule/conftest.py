import json
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws
from pynamodb.transactions import TransactWrite

from clarion import tables, wake_ups
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS
from clarion.tables import RuleRow, Subscription, Token, WakeUp
from clarion.tokens import token_hash
from tests.match.scene import credentials

if TYPE_CHECKING:
    from pynamodb.connection import Connection

AT = 29_000_000 // 1440 * 1440 + 700
"""A minute since the epoch, and not the first of its hour."""
AT_MS = AT * 60_000
CLIENT = b"c" * 32


class Account:
    """The tables, the queues and the lake, and subscriptions as the API makes them."""

    def __init__(self) -> None:
        self.connection: Connection = tables.bind("")
        for model in (Subscription, Token, RuleRow, WakeUp):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        self.sqs = boto3.client("sqs")
        self.queues = {name: self.sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("apns", "fcm", "cleanup")}
        boto3.client("s3").create_bucket(Bucket="lake")
        lake = {"RoleARN": "arn:aws:iam::123456789012:role/lake", "BucketARN": "arn:aws:s3:::lake"}
        boto3.client("firehose").create_delivery_stream(
            DeliveryStreamName="lake",
            ExtendedS3DestinationConfiguration=lake,  # type: ignore[arg-type] # the stub's TypedDict
        )

    def subscribe(
        self,
        status: SubscriptionStatus = SubscriptionStatus.ACTIVE,
        *,
        channel: Channel = Channel.APNS,
        created_at: int = AT_MS,
        name: str | None = None,
        **others: Any,
    ) -> Subscription:
        row = Subscription(
            name or str(uuid4()),
            client_id=CLIENT,
            network=STATEMENTS,
            channel=channel.value,
            token=uuid4().hex * 2,
            status=status.value,
            generation=3,
            rule_count=2,
            revision=3,
            created_at=created_at,
            updated_at=created_at,
            **others,
        )
        with TransactWrite(connection=self.connection) as write:
            write.save(row)
            if status is SubscriptionStatus.ACTIVE:
                write.save(Token(token_hash(channel, row.token), row.network, **_owner(row)))
            wake_ups.add_wake_up(write, row)
            wake_ups.add_expiry(write, row)
        return row

    def due_at(self, minute: int, period: int = 20, **others: Any) -> Subscription:
        """A subscription that is woken in this minute."""
        slot = f"{period}:{minute % period}"
        names = (str(uuid4()) for _ in count())
        name = next(name for name in names if wake_ups.slot_of(name, period) == slot)
        return self.subscribe(name=name, wake_every_minutes=period, **others)

    def drain(self, name: str) -> list[str]:
        bodies, url = [], self.queues[name]
        while found := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            bodies += [message["Body"] for message in found]
            for message in found:
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def pushes(self) -> list[PushMessage]:
        """Since the last look."""
        return [PushMessage.model_validate_json(body) for name in ("apns", "fcm") for body in self.drain(name)]

    def woken(self) -> list[str]:
        """The subscriptions that were sent a push since the last look."""
        return [str(push.subscription_id) for push in self.pushes()]

    def events(self) -> list[dict[str, Any]]:
        s3, lines = boto3.client("s3"), list[str]()
        for found in s3.list_objects_v2(Bucket="lake").get("Contents", ()):
            lines += s3.get_object(Bucket="lake", Key=found["Key"])["Body"].read().decode().splitlines()
        return [json.loads(line) for line in lines]


def _owner(row: Subscription) -> dict[str, Any]:
    return {"subscription_id": row.subscription_id, "client_id": row.client_id}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield Account()
