"""`clarion send-test TOKEN`: one push by way of the live queue, function, secret and provider of its channel.

Dispatch reads tokens from subscriptions, never from messages. So the token gets a subscription of its own for as long
as the test lasts: without rules, of a client that is nobody, and without a claim on the token, so that whoever has
registered it keeps it, whatever the provider says of this push.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Self
from uuid import UUID, uuid4

import boto3
from rich.console import Group
from rich.text import Text

from clarion import tables
from clarion.addresses import canonical
from clarion.channels import Channel
from clarion.decisions import Environment, Purpose, PushDecision, SubscriptionStatus
from clarion.events import PushTried
from clarion.messages import PushMessage
from clarion.networks import STATEMENTS

# A push is always one of some network: only statements have bodies that can be made up without a node or a server.
from clarion.networks.statements.payload import CHANNELS, StatementBody
from clarion.tables import Subscription
from console.deployment import Deployment
from console.faults import Trouble
from console.lake import HOUR, File, Lake
from console.output import Progress, Report, ago, confirm, progress
from console.sources import Source
from console.tracks import scan

TESTED = CHANNELS
"""The channels that a test may go by."""
NOBODY = bytes(32)
WAIT_SECONDS = 150
"""Firehose gathers for a minute, and takes a while to write."""
POLL_SECONDS = 3.0
LETTER = (
    "Its message went to {channel}'s dead letters, and the alarm dead-letters will go off: that is this. "
    "`clarion redrive {channel}` clears it: nothing is pushed, since the test's subscription is gone."
)
LEFT_SECONDS = 86_400
"""After so long DynamoDB removes a test's subscription that could not be removed at its end."""
NOT_FINAL = {PushDecision.RETRY, PushDecision.MISCONFIGURED}
"""After these, another attempt follows."""


@dataclass(frozen=True)
class TestDevice:
    """Whom to push to: the address, as `clarion.addresses` writes it, and where it is good."""

    token: str = field(repr=False)
    channel: Channel
    app: str | None
    environment: Environment

    @classmethod
    def of(cls, text: str, channel: Channel, app: str | None, environment: Environment) -> Self:
        """Raises `ValueError`, which shows nothing of `text`, if that is no address of this channel."""
        return cls(canonical(channel, text), channel, app, environment)

    def __str__(self) -> str:
        return f"{f'app {self.app}' if self.app else 'first app'}, {self.environment}"


class Tested(Report):
    """`decision` is absent if the lake said nothing in time."""

    stage: str
    channel: Channel
    receipt: UUID
    envelope_id: str
    decision: PushDecision | None = None
    attempt: int | None = None
    latency_ms: int | None = None
    status: int | None = None
    reason: str | None = None
    provider_id: str | None = None

    def __rich__(self) -> Group:
        later = Text(f"Later: clarion why --envelope 0x{self.envelope_id}", "dim")
        if self.decision is None:
            return Group(
                "Sent; the lake recorded nothing of it in time. Is the channel far behind? See `clarion status`.", later
            )
        answer = {
            "attempt": self.attempt,
            "status": self.status,
            "reason": self.reason,
            "provider's id": self.provider_id,
            "after": ago(self.latency_ms / 1000) if self.latency_ms is not None else None,
        }
        details = ", ".join(f"{name} {value}" for name, value in answer.items() if value is not None)
        style = "green" if self.decision is PushDecision.DELIVERED else "red"
        outcome = Text(f"{self.decision}: {details}", style)
        letter = [LETTER.format(channel=self.channel)] if self.decision is PushDecision.REFUSED else []
        return Group(outcome, *letter, later)


def send_test(here: Deployment, device: TestDevice, wait: int, poll: float, *, yes: bool) -> Tested:
    queue = here.queue(device.channel)
    if not Source(boto3.client("lambda"), queue).on:
        raise Trouble(f"{device.channel} is muted: `clarion unmute {device.channel}` first")
    rings = "; the phone will ring" if device.channel is Channel.VOIP else ""
    confirm(f"Push a test to this device by {device.channel} of {here}, {device}{rings}?", yes=yes)
    tables.bind(here.prefix, seconds=None)
    now = datetime.now(UTC)
    with progress("sending") as shown, _subscribed(device, now) as subscription_id:
        message = _message(device, subscription_id, now, wait)
        boto3.client("sqs").send_message(QueueUrl=queue.url, MessageBody=message.to_json())
        tried = _outcome(Lake(boto3.client("s3"), here.lake), message, wait, shown, poll)
    outcome = (
        tried.model_dump(include={"decision", "attempt", "latency_ms", "status", "reason", "provider_id"})
        if tried
        else {}
    )
    return Tested(
        stage=here.stage,
        channel=device.channel,
        receipt=message.receipt,
        envelope_id=message.envelope_id.hex(),
        **outcome,
    )


@contextmanager
def _subscribed(device: TestDevice, now: datetime) -> Iterator[UUID]:
    name, instant = uuid4(), int(now.timestamp() * 1000)
    row = Subscription(
        str(name),
        client_id=NOBODY,
        network=STATEMENTS,
        channel=device.channel.value,
        token=device.token,
        app=device.app,
        environment=device.environment.value,
        status=SubscriptionStatus.ACTIVE.value,
        generation=0,
        rule_count=0,
        created_at=instant,
        updated_at=instant,
        ttl=instant // 1000 + LEFT_SECONDS,
    )
    row.save()
    try:
        yield name
    finally:
        row.delete()


def _message(device: TestDevice, subscription_id: UUID, now: datetime, wait: int) -> PushMessage:
    """It carries no data and an unknown sender, so that the app finds nothing to fetch or to decrypt."""
    receipt = uuid4()
    return PushMessage(
        network=STATEMENTS,
        purpose=Purpose.DIRECT,
        receipt=receipt,
        observed_at=int(now.timestamp() * 1000),
        envelope_id=blake2b(b"clarion send-test " + receipt.bytes, digest_size=32).digest(),
        subscription_id=subscription_id,
        client_id=NOBODY,
        channel=device.channel,
        body=StatementBody(sender=NOBODY, topic=bytes(32)),
        expires_at=int((now + timedelta(seconds=wait)).timestamp()),
    )


def _outcome(lake: Lake, message: PushMessage, wait: int, shown: Progress, poll: float) -> PushTried | None:
    """The last attempt that the lake holds: at once if it was final, else when the time is up."""
    sent_at, seen = datetime.fromtimestamp(message.observed_at / 1000, UTC), set[str]()
    last: PushTried | None = None
    deadline = sent_at + timedelta(seconds=wait)
    while (now := datetime.now(UTC)) < deadline and (last is None or last.decision in NOT_FINAL):
        shown.at("sent; waiting for the lake", (now - sent_at).total_seconds(), wait)
        time.sleep(poll)
        for file in _fresh(lake, sent_at, seen):
            seen.add(file.key)
            tried = [one for one in scan(lake, file, message.envelope_id).records if isinstance(one, PushTried)]
            last = max([*tried, *([last] if last else [])], key=lambda one: one.attempt, default=None)
    return last


def _fresh(lake: Lake, since: datetime, seen: set[str]) -> list[File]:
    """What was written since, and not yet read; an hour's file may be begun in the hour before."""
    now = datetime.now(UTC)
    hours = {f"{hour:%Y%m%d%H}": hour for hour in (since - HOUR / 12, now)}
    files = [file for hour in hours.values() for file in lake.files(hour)]
    return [file for file in files if file.key not in seen and file.written_at > since - timedelta(seconds=5)]
