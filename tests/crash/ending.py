"""Scenario: a dead token has more holders than end at once. A page ends as dispatch ends it, the others by the cleanup queue."""

from dataclasses import dataclass
from uuid import UUID, uuid4

import boto3
from pynamodb.connection import Connection

from clarion import tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.decisions import SubscriptionStatus
from clarion.endings import HOLDERS, Death, declare_dead, end_holders
from clarion.messages import CleanupMessage, DeadTokenMessage, read_cleanup_request
from clarion.networks import ZULIP
from clarion.tables import Subscription, Token, find_subscription
from clarion.tokens import hash_of, token_of
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.match.scene import NOW, PREFIX

DEVICES = HOLDERS + 3


@dataclass
class Dying:
    """`tried` is the last device."""

    connection: Connection
    cleanup_url: str

    def __post_init__(self) -> None:
        token = uuid4().hex * 2
        self._rows = [_device(token, number) for number in range(DEVICES)]
        self._named = set[UUID]()
        with wire.aside():
            for row in self._rows:
                row.save()
                token_of(row).save()
        self._steps = [self._die, self._clean_up]
        self.stop()

    def deliver(self) -> bool:
        try:
            while self._steps:
                self._steps[0]()
                wire.step(RETURN)
                del self._steps[0]
        except FAILED:
            return False
        return True

    def stop(self) -> None:
        self._queue = CleanupQueue(boto3.client("sqs"), self.cleanup_url)

    def check(self) -> None:
        ids = [row.subscription_id for row in self._rows]
        for row in Subscription.batch_get(ids, consistent_read=True):
            assert row.status == SubscriptionStatus.INVALID, "a device has not ended"
            assert row.revision == 1, "a device has ended twice"
        assert Token.count(hash_of(self._rows[0]), consistent_read=True) == 0, "the token is not free"
        assert {UUID(name) for name in ids} <= self._named, "nobody erases the rules of what has ended"

    def _die(self) -> None:
        """As dispatch records it, which pushes to none that has ended."""
        with wire.aside():
            tried = find_subscription(self._rows[-1].subscription_id)
        if tried is not None and tried.status == SubscriptionStatus.ACTIVE:
            declare_dead(
                self.connection,
                tried,
                Death("Unregistered", at=NOW),
                request_cleanup=self._queue.send,
                request_endings=self._queue.send_dead_token,
            )

    def _clean_up(self) -> None:
        sqs = boto3.client("sqs")
        while found := self._received():
            for body, handle in found:
                self._handle(body)
                with wire.aside():
                    sqs.delete_message(QueueUrl=self.cleanup_url, ReceiptHandle=handle)

    def _received(self) -> list[tuple[str, str]]:
        """What is not deleted comes again at once."""
        with wire.aside():
            answer = boto3.client("sqs").receive_message(
                QueueUrl=self.cleanup_url, MaxNumberOfMessages=10, VisibilityTimeout=0
            )
        return [(one["Body"], one["ReceiptHandle"]) for one in answer.get("Messages", ())]

    def _handle(self, body: str) -> None:
        match read_cleanup_request(body):
            case DeadTokenMessage() as message:
                for _ in end_holders(self.connection, message, request_cleanup=self._queue.send):
                    pass
            case CleanupMessage() as message:
                self._named.update(message.subscription_ids)


def _device(token: str, number: int) -> Subscription:
    """Its id sorts by `number`, so that each run calls the same."""
    return Subscription(
        str(UUID(bytes=bytes([number]) + uuid4().bytes[1:])),
        client_id=bytes(16),
        network=ZULIP,
        channel=Channel.APNS.value,
        token=token,
        status=SubscriptionStatus.ACTIVE.value,
        generation=0,
        rule_count=0,
        created_at=1,
        updated_at=1,
    )


def scenario() -> Scenario:
    connection = tables.bind(PREFIX)
    cleanup_url = boto3.client("sqs").create_queue(QueueName="crash-ending-cleanup")["QueueUrl"]
    return Scenario("ending", lambda: Dying(connection, cleanup_url))
