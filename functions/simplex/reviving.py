"""The rules of a token that is active again: as many at a time as a transaction takes."""

from collections.abc import Sequence
from dataclasses import dataclass

from pynamodb.connection import Connection

from clarion.event_log import EventLog
from clarion.networks import SIMPLEX
from clarion.networks.simplex.bounds import QUEUES_OF_TOKEN
from clarion.rule_events import rule_events
from clarion.rulesets import TRANSACTION_RULES, Changed, Owner, RequestContext, RuleSets
from clarion.tables import Subscription


class ContendedError(Exception):
    """Others kept changing the token's rules."""


@dataclass(frozen=True, slots=True)
class Revival:
    connection: Connection
    events: EventLog

    def revive(self, subscription: Subscription, keys: Sequence[bytes], now: int) -> None:
        """Put a rule for each of the keys in force, beside those that are. Raises `ContendedError`: try again later."""
        # So few at a time never take a generation of their own, which would have to be cleaned up after a crash.
        rule_sets = RuleSets(self.connection, limit=2 * QUEUES_OF_TOKEN, request_cleanup=lambda *_: None)
        owner = Owner(SIMPLEX, bytes(subscription.client_id))
        for first in range(0, len(keys), TRANSACTION_RULES):
            rules = dict.fromkeys(keys[first : first + TRANSACTION_RULES], b"")
            changed = rule_sets.add(subscription.subscription_id, owner, rules, RequestContext(now))
            if not isinstance(changed, Changed):
                raise ContendedError(changed.value)
            for event in rule_events(changed, now):
                self.events.add(event)
