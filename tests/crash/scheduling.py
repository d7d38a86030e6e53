"""Scenario: the schedule is called for the first minute of an hour, and again for as long as the call fails.

It is due in that minute, or late: then somebody was due before, and whenever the call fails the next minute begins.
"""

from dataclasses import dataclass
from itertools import count
from math import inf
from uuid import uuid4

import boto3
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion import tables, wake_ups
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.decisions import SubscriptionStatus
from clarion.messages import CleanupMessage, PushMessage
from clarion.metrics import metrics_of
from clarion.networks import STATEMENTS
from clarion.proofs import PENDING_MS
from clarion.tables import Subscription, WakeUp
from schedule.expiries import Expiries
from schedule.handler import SERVICE, Schedule
from schedule.ticks import LATEST, TICKS
from schedule.waking import WakeUps
from tests.crash.dispatching import FAILED
from tests.crash.harness import RETURN, Scenario
from tests.crash.wire import wire
from tests.events import event_log
from tests.match.scene import PREFIX, InTurn

PERIOD = 20
_hours = count(500_000, 100)


@dataclass
class Scheduling:
    connection: Connection
    cleanup_url: str
    late: bool

    def __post_init__(self) -> None:
        with WakeUp.batch_write() as batch:
            for entry in WakeUp.scan():
                batch.delete(entry)
        self._at = next(_hours) * 60
        self._due_at = self._at - 2 * self.late
        self._calls = 0
        self._woken = self._subscribe(SubscriptionStatus.ACTIVE)
        self._unproven = self._subscribe(SubscriptionStatus.PENDING)
        # Nothing is left out when the process stops in the first minute of all.
        WakeUp(TICKS, LATEST, minute=self._due_at - 1).save()
        self.stop()

    def _subscribe(self, status: SubscriptionStatus) -> Subscription:
        made_at = self._at * 60_000 - PENDING_MS - 1
        slot = f"{PERIOD}:{self._due_at % PERIOD}"
        row = Subscription(
            next(name for name in map(str, iter(uuid4, None)) if wake_ups.slot_of(name, PERIOD) == slot),
            client_id=uuid4().bytes * 2,
            network=STATEMENTS,
            channel=Channel.APNS.value,
            token=uuid4().hex * 2,
            status=status.value,
            generation=0,
            rule_count=0,
            created_at=made_at,
            updated_at=made_at,
            wake_every_minutes=PERIOD,
        )
        with TransactWrite(connection=self.connection) as write:
            write.save(row)
            wake_ups.add_wake_up(write, row)
            wake_ups.add_expiry(write, row)
        return row

    def deliver(self) -> bool:
        if self.late and self._calls:
            with wire.aside():
                self._schedule.run(self._at + self._calls, inf)
        self._calls += 1
        try:
            self._schedule.run(self._at, inf)
            wire.step(RETURN)
        except (*FAILED, AttributeError):  # what pynamodb 6.1 makes of some time-outs
            return False
        return True

    def stop(self) -> None:
        with wire.aside():
            sqs = boto3.client("sqs")
            self._queue = sqs.get_queue_url(QueueName=Channel.APNS)["QueueUrl"]
            self._schedule = Schedule(
                wake_ups=WakeUps(sqs=sqs, held_queues={Channel.APNS: self._queue}, executor=InTurn()),
                expiries=Expiries(
                    cleanup=CleanupQueue(sqs, self.cleanup_url),
                    events=event_log(),
                    threads=1,
                ),
                metrics=metrics_of(SERVICE, "crash"),
            )

    def check(self) -> None:
        """What could not be ended then is ended an hour later."""
        self._schedule.run(self._at + 60, inf)
        pushes = [PushMessage.model_validate_json(body) for body in self._drain(self._queue)]
        due = {push.envelope_id for push in pushes if push.expires_at == (self._due_at + PERIOD) * 60}
        assert len(due) == 1, "it was not woken, or by pushes that can't be recognised as the same"
        assert {str(push.subscription_id) for push in pushes} == {self._woken.subscription_id}, "another was woken"
        self._woken.refresh(consistent_read=True)
        self._unproven.refresh(consistent_read=True)
        assert self._woken.status == SubscriptionStatus.ACTIVE, "the proven one was ended"
        assert self._unproven.status == SubscriptionStatus.EXPIRED, "the other one was not ended"
        messages = [CleanupMessage.model_validate_json(body) for body in self._drain(self.cleanup_url)]
        cleaned = {str(name) for message in messages for name in message.subscription_ids}
        assert self._unproven.subscription_id in cleaned, "its rules are left over"
        left = [entry.slot for entry in WakeUp.scan() if entry.subscription_id == self._unproven.subscription_id]
        assert left == [], "its entry is left over"

    def _drain(self, url: str) -> list[str]:
        bodies, sqs = [], boto3.client("sqs")
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            for each in found:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
                bodies.append(each["Body"])
        return bodies


def scenario(*, late: bool) -> Scenario:
    connection = tables.bind(PREFIX)
    name = "scheduling late" if late else "scheduling"
    cleanup_url = boto3.client("sqs").create_queue(QueueName=f"crash-{name.replace(' ', '-')}-cleanup")["QueueUrl"]
    return Scenario(name, lambda: Scheduling(connection, cleanup_url, late))
