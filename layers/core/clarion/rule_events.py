"""What the lake records of a change of rules."""

from collections.abc import Iterator
from typing import Literal
from uuid import UUID

from clarion.events import Event
from clarion.networks import Rule, network
from clarion.rulesets import Changed, RuleSet
from clarion.subscription_events import RuleRef, RulesChanged, SubscriptionChanged, in_records
from clarion.tables import Subscription


def rule_events(changed: Changed, at: int) -> Iterator[Event]:
    """A new generation's rules come before the subscription that puts them in force."""
    row = changed.subscription
    if changed.anew is None:
        # An `added` event supersedes earlier ones of its rule, so one with another condition is reported as added only.
        gone = {key: condition for key, condition in changed.removed.items() if key not in changed.added}
        yield from _rules_changed(row, gone, "removed", at)
        yield from _rules_changed(row, changed.added, "added", at)
    else:
        yield from _rules_changed(row, changed.anew, "added", at)
        yield SubscriptionChanged.of(row, at)


def _rules_changed(
    row: Subscription, rules: RuleSet, change: Literal["added", "removed"], at: int
) -> Iterator[RulesChanged]:
    if not rules:
        return
    secret = network(row.network).secret_conditions
    whole = RulesChanged(
        network=row.network,
        at=at,
        change=change,
        subscription_id=UUID(row.subscription_id),
        generation=int(row.generation),
        revision=int(row.revision),
        rules=tuple(RuleRef.of(Rule(key, condition), secret=secret) for key, condition in rules.items()),
    )
    yield from in_records(whole)
