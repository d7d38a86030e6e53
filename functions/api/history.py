"""What the lake is told of changes to rules, so that any moment can be reconstructed."""

from collections.abc import Iterator
from typing import Literal
from uuid import UUID

from clarion.events import Event, RuleRef, RulesChanged, SubscriptionChanged, in_records
from clarion.rulesets import Changed, RuleSet
from clarion.tables import KEY_BYTES, Subscription


def of_rules(changed: Changed, at: int) -> Iterator[Event]:
    """A new generation's rules come before the subscription that puts them in force."""
    if changed.anew is None:
        # An `added` event supersedes earlier events of its rule, so a rule whose push type changed is reported as added only.
        gone = {pair: how for pair, how in changed.removed.items() if pair not in changed.added}
        yield from _rules(changed.subscription, gone, "removed", at)
        yield from _rules(changed.subscription, changed.added, "added", at)
    else:
        yield from _rules(changed.subscription, changed.anew, "added", at)
        yield SubscriptionChanged.of(changed.subscription, at)


def _rules(row: Subscription, rules: RuleSet, change: Literal["added", "removed"], at: int) -> Iterator[Event]:
    if not rules:
        return
    whole = RulesChanged(
        at=at,
        change=change,
        subscription_id=UUID(row.subscription_id),
        generation=int(row.generation),
        revision=int(row.revision),
        rules=tuple(
            RuleRef(sender_pubkey=pair[:KEY_BYTES], topic=pair[KEY_BYTES:], push_type=push_type)
            for pair, push_type in rules.items()
        ),
    )
    yield from in_records(whole)
