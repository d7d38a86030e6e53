"""What Clarion records in the lake: one JSON line for each observation, decision and change. Never a push token.

All kinds share one Firehose stream, and `event` names the kind; the pipeline's `compact` sorts them: docs/lake.md. How
they get there is said in `clarion.event_log`.
"""

from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, Purpose, PushDecision
from clarion.messages import HexBytes, Milliseconds, ObservedMessage


class Event(BaseModel):
    """`at` is when it was decided or took effect."""

    # A component emits a few of them: the others' schemas are never built.
    model_config = ConfigDict(defer_build=True, frozen=True, ser_json_bytes="base64", val_json_bytes="base64")

    version: Literal[1] = 1
    network: str
    at: Milliseconds

    def to_line(self) -> bytes:
        return self.model_dump_json(exclude_none=True).encode() + b"\n"


class EnvelopeObserved(Event):
    """The envelope itself, as ingest forwarded it; one too large for a queue message is named by its `location`."""

    event: Literal["observed"] = "observed"
    receipt: UUID
    observed_at: Milliseconds
    raw: bytes | None = None
    location: str | None = None

    @classmethod
    def of(cls, message: ObservedMessage, at: int) -> "EnvelopeObserved":
        return cls(at=at, **message.model_dump(include={"network", "receipt", "observed_at", "raw", "location"}))


class Decided(Event):
    """`receipt` ties together all that came of one observed envelope."""

    receipt: UUID
    envelope_id: HexBytes | None = None


class EnvelopeDecided(Decided):
    event: Literal["envelope"] = "envelope"
    decision: EnvelopeDecision
    observed_at: Milliseconds
    sender: HexBytes | None = None
    reason: str | None = None


class NotificationDecided(Decided):
    """`order` is the `version` of the pair's rate limit that the decision was taken on or wrote.

    It puts a pair's decisions into the order they happened in, which the clocks of racing Lambdas can't. `judged_at` is
    the time that the limits judged it by, and `counted` whether the version `order` was the first to count it, or to
    hold the cooldown it started. `own` is set where the client has sent the envelope itself, and its app has that
    delivered.
    """

    event: Literal["notification"] = "notification"
    decision: NotificationDecision
    subscription_id: UUID
    client_id: HexBytes
    channel: Channel
    sender: HexBytes | None = None
    key: HexBytes
    order: int | None = None
    judged_at: Milliseconds | None = None
    counted: bool | None = None
    own: Literal[True] | None = None


class PushTried(Decided):
    """`purpose` is that of the push's message. What was received is no attempt: that is 0 then, and there is no `channel`.

    `provider_id` is APNs' `apns-id`, FCM's message name, none for Web Push; `latency_ms` counts from `observed_at`.
    `given_up` is set of a `refused` push alone: true if dispatch stopped trying or could make no payload, false if its
    provider refused it.
    """

    event: Literal["push"] = "push"
    decision: PushDecision
    purpose: Purpose = Purpose.NOTIFICATION
    subscription_id: UUID
    channel: Channel | None = None
    attempt: int
    latency_ms: int
    status: int | None = None
    reason: str | None = None
    provider_id: str | None = None
    given_up: bool | None = None


class LimitsLoaded(Event):
    """The limits that a worker of match decides by from `at` on, which the pipeline then judges by; in milliseconds.

    Without `count` the network has no limit for a pair.
    """

    event: Literal["limits"] = "limits"
    count: int | None = None
    window: int | None = None
    cooldown: int | None = None
    cap: int
    cap_window: int
