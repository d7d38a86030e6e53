"""The rules of a token that is active again: as many at a time as a transaction takes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched

from pynamodb.connection import Connection

from clarion.command_queue import OutOfTimeError
from clarion.event_log import EventLog
from clarion.networks import SIMPLEX
from clarion.networks.simplex.bounds import QUEUES_OF_TOKEN
from clarion.rule_events import rule_events
from clarion.rulesets import TRANSACTION_RULES, Changed, Owner, RequestContext, RuleSets
from clarion.tables import Subscription
from simplex.token_queues import ContendedError


@dataclass(frozen=True, slots=True)
class TokenRules:
    connection: Connection
    events: EventLog

    def restore(self, subscription: Subscription, keys: Sequence[bytes], now: int, until: float) -> None:
        """Put a rule for each of the keys in force, beside those that are; those that are in force stay as they are.

        `now` is in UNIX milliseconds, `until` in seconds of the monotonic clock. Raises `ContendedError` and
        `OutOfTimeError`.
        """
        # So few at a time never take a generation of their own, which would have to be cleaned up after a crash.
        rule_sets = RuleSets(self.connection, limit=2 * QUEUES_OF_TOKEN, request_cleanup=lambda *_: None)
        owner = Owner(SIMPLEX, bytes(subscription.client_id))
        for several in batched(keys, TRANSACTION_RULES, strict=False):
            if time.monotonic() > until:
                raise OutOfTimeError("there was not the time for all of its rules")
            changed = rule_sets.add(
                subscription.subscription_id, owner, dict.fromkeys(several, b""), RequestContext(now, until)
            )
            if not isinstance(changed, Changed):
                raise ContendedError(changed.value)
            for event in rule_events(changed, now):
                self.events.add(event)
