"""What Clarion records in the lake of subscriptions and their rules, beside what comes of envelopes: `clarion.events`."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from clarion.batching import by_size
from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.events import Event
from clarion.messages import HexBytes
from clarion.networks import Rule

if TYPE_CHECKING:
    from clarion.tables import Subscription

RULE_BYTES_PER_EVENT = 400_000
"""Keeps a line well below `RECORD_BYTES` of `clarion.event_log`; a larger rule set takes several events."""


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
