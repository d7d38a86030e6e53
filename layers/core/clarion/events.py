"""What Clarion records in the lake: one JSON line for each observation, decision and change. Never a push token.

All kinds share one Firehose stream, and `event` names the kind; the pipeline's `compact` sorts them: docs/lake.md. How
they get there is said in `clarion.event_log`.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from clarion.batching import by_size
from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, Purpose, PushDecision, SubscriptionStatus
from clarion.messages import HexBytes, Milliseconds, ObservedMessage
from clarion.networks import Rule

if TYPE_CHECKING:
    from clarion.tables import Subscription

RULE_BYTES_PER_EVENT = 400_000
"""Keeps a line well below `RECORD_BYTES` of `clarion.event_log`; a larger rule set takes several events."""


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


class SubscriptionChanged(Event):
    """What a subscription is from `at` on: after its creation, each new generation, its token's death, its removal.

    `revision` is the subscription's: it orders the changes that the clocks of racing Lambdas can't.
    """

    event: Literal["subscription"] = "subscription"
    subscription_id: UUID
    client_id: HexBytes
    channel: Channel
    status: SubscriptionStatus | Literal["removed"]
    status_reason: str | None = None
    generation: int
    revision: int = 0

    @classmethod
    def of(cls, row: "Subscription", at: int) -> "SubscriptionChanged":
        return cls(
            network=row.network,
            at=at,
            subscription_id=UUID(row.subscription_id),
            client_id=row.client_id,
            channel=Channel(row.channel),
            status=SubscriptionStatus(row.status),
            status_reason=row.status_reason,
            generation=int(row.generation),
            revision=int(row.revision),
        )

    @classmethod
    def of_removed(cls, row: "Subscription", at: int, reason: str | None = None) -> "SubscriptionChanged":
        """`row` is as it was before; its removal is one more revision."""
        removed = {"status": "removed", "status_reason": reason or row.status_reason}
        return cls.of(row, at).model_copy(update={**removed, "revision": int(row.revision) + 1})


class RuleRef(BaseModel):
    """A rule by its key. A condition that may hold a secret is known by its digest alone, see `of`."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    key: HexBytes
    condition: HexBytes | None = None
    condition_digest: HexBytes | None = None

    @property
    def size(self) -> int:
        """Bytes of its JSON, or a few more."""
        return 100 + 2 * sum(len(part) for part in (self.key, self.condition, self.condition_digest) if part)

    @classmethod
    def of(cls, rule: Rule, *, secret: bool) -> "RuleRef":
        """The digest is BLAKE2b-256."""
        if not rule.condition:
            return cls(key=rule.key)
        if secret:
            return cls(key=rule.key, condition_digest=blake2b(rule.condition, digest_size=32).digest())
        return cls(key=rule.key, condition=rule.condition)


class RulesChanged(Event):
    """Rules that were added to or removed from one generation of a subscription.

    A rule is in force while its generation is that of its active subscription. So a replaced rule set is recorded as
    rules added to the next generation, then the subscription with that generation; the old rules need no event.
    """

    event: Literal["rules"] = "rules"
    change: Literal["added", "removed"]
    subscription_id: UUID
    generation: int
    revision: int = 0
    rules: tuple[RuleRef, ...]


def in_records(change: RulesChanged) -> Iterator[RulesChanged]:
    """A change of any size, as events that each fit a record."""
    for some in by_size(change.rules, lambda rule: rule.size, RULE_BYTES_PER_EVENT):
        yield change.model_copy(update={"rules": tuple(some)})
