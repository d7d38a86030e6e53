"""RuleRow sets: up to thousands of rules that change as one.

A subscription's rules in force are those of its current `generation`. Whoever changes them reads the subscription,
works out what is to be added and removed, and commits that on condition that `revision` has not moved:

    change           commit                                                                 in force
    up to 99 rules   one transaction: the rules, `rule_count`, `revision` + 1               at once
    more             claim a generation (`revision` + 1), write the whole set under it,     with the flip
                     flip `generation` and `rule_count` by one conditional write

Rules of another generation are not in force, be they replaced or left by a crash. Before anything is written under a
claim, a clean-up is requested, which erases them once the request has ended: see `clarion.cleanup`.

A dead token puts an empty generation in force, in the transaction that marks the subscription invalid; it takes no
rules after that.

A large addition or removal starts from the rules that were in force, so a replacement it overtakes has not happened
and is tried again. Only another replacement, which says so in `replaced`, makes it superfluous.
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import batched
from typing import NamedTuple

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError
from pynamodb.expressions.condition import Condition
from pynamodb.transactions import TransactWrite

from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.decisions import SubscriptionStatus
from clarion.generations import BATCH, NEVER, batch_write, claim_generation, flip, prefix
from clarion.proofs import status_at
from clarion.tables import RuleRow, Subscription, find_subscription, lost_race, rule_key

type RuleSet = dict[bytes, bytes]
"""What a receiver asks for: keys, each with its condition; see `clarion.networks.Rule`."""
type Renewed = Callable[[bytes, bytes | None], bytes]
"""From a key and the condition of its rule, None if it has none, to the condition that it shall have."""
type RequestCleanup = Callable[[str, int], None]
"""Called with a subscription and a claimed generation before that is written; see `clarion.cleanup.erase_dead`."""
type Charge = Callable[[int], None]
"""Called with how many rules a large change writes and erases, before it is claimed; what it raises passes through."""

TRANSACTION_RULES = 99
"""A transaction takes 100 items, one of which is the subscription."""


class Unchanged(Enum):
    """Why no rule was changed."""

    NOT_FOUND = "the client has no such subscription"
    INVALID = "the subscription has ended, so it takes no rules"
    TOO_MANY = "the subscription would have more rules than it may"
    CONTENDED = "other requests kept changing the rules"
    SUPERSEDED = "a set that was claimed later has replaced this one"


@dataclass(frozen=True, slots=True)
class Changed:
    """A change in force: the subscription as it is since, what was added and what was removed.

    A rule with another condition than before is in both: as it is, and as it was. `anew` are all rules in force, if the
    change wrote them under a new generation.
    """

    subscription: Subscription
    added: RuleSet
    removed: RuleSet
    anew: RuleSet | None = None

    @property
    def new_keys(self) -> int:
        """How many keys have a rule that had none."""
        return len(self.added.keys() - self.removed.keys())

    @property
    def total(self) -> int:
        return int(self.subscription.rule_count)


class Owner(NamedTuple):
    """Whose a subscription is: a client of one network. Another network may know another client by the same bytes."""

    network: str
    client_id: bytes

    def owns(self, row: Subscription) -> bool:
        return (row.network, row.client_id) == self


def _free(_: int) -> None:
    """Charge nothing."""


class RequestContext(NamedTuple):
    """What each change takes from the request that asks for it.

    `now` is in UNIX milliseconds, `until` by the monotonic clock, in seconds: nothing is begun after it. A change of
    more than `TRANSACTION_RULES` rules asks `charge` first.
    """

    now: int
    until: float = NEVER
    charge: Charge = _free


def owned(subscription_id: str, owner: Owner) -> Subscription | None:
    """The owner's subscription as it is now; None if there is none or it is somebody else's."""
    found = find_subscription(subscription_id)
    return found if found and owner.owns(found) else None


class RuleSets:
    """Reads and changes rule sets of up to `limit` rules. `clock` is the monotonic one, in seconds."""

    def __init__(
        self,
        connection: Connection,
        *,
        limit: int,
        request_cleanup: RequestCleanup,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._request_cleanup = request_cleanup
        self._sleep = sleep
        self._clock = clock

    def read(
        self,
        subscription_id: str,
        owner: Owner,
        *,
        after: bytes | None = None,
        limit: int | None = None,
        until: float = NEVER,
    ) -> tuple[Subscription, RuleSet] | Unchanged:
        """A subscription with its rules, as both were at one moment; at most `limit` of those that follow `after`."""
        for row in self._attempts(subscription_id, owner, until):
            rules = _in_generation(row, after, limit)
            if _still(row):
                return row, rules
        return _given_up(subscription_id, owner)

    def replace(
        self, subscription_id: str, owner: Owner, rules: RuleSet, request: RequestContext
    ) -> Changed | Unchanged:
        """Put `rules` in force and all others out of it. Of two at a time, the one that claims later stays."""
        claim = None
        for row in self._attempts(subscription_id, owner, request.until):
            if not status_at(row, request.now).has_rules:
                return Unchanged.INVALID
            if len(rules) > self._limit:
                return Unchanged.TOO_MANY
            if claim and row.replaced > claim:
                return Unchanged.SUPERSEDED
            known = _in_generation(row)
            added, removed = dict(rules.items() - known.items()), dict(known.items() - rules.items())
            if len(added | removed) <= TRANSACTION_RULES and (
                after := self._transact(row, added, removed, request.now)
            ):
                return Changed(after, added, removed)
            request.charge(len(rules) + int(row.rule_count))
            claim = claim_generation(subscription_id, _takes_rules(owner))
            if claim and (after := self._replace_all(subscription_id, claim, rules, request)):
                return Changed(after, added, removed, anew=rules)
        return _given_up(subscription_id, owner)

    def add(self, subscription_id: str, owner: Owner, rules: RuleSet, request: RequestContext) -> Changed | Unchanged:
        """Put `rules` in force beside the others; one that is in force already takes the condition, if one is given."""
        return self.renew(subscription_id, owner, rules, lambda key, present: rules[key] or present or b"", request)

    def renew(
        self, subscription_id: str, owner: Owner, keys: Collection[bytes], renewed: Renewed, request: RequestContext
    ) -> Changed | Unchanged:
        """Put a rule for each of `keys` in force, beside the others, with a condition worked out from its present one."""
        for row in self._attempts(subscription_id, owner, request.until):
            if not status_at(row, request.now).has_rules:
                return Unchanged.INVALID
            known = _in_force(row, keys)
            conditions = {key: renewed(key, known.get(key)) for key in keys}
            added = {key: condition for key, condition in conditions.items() if known.get(key) != condition}
            changed_condition = {key: known[key] for key in added if key in known}
            if row.rule_count + len(added) - len(changed_condition) > self._limit:
                if _still(row):
                    return Unchanged.TOO_MANY
            elif changed := self._commit(row, added, changed_condition, request):
                return changed
        return _given_up(subscription_id, owner)

    def rewrite(
        self, subscription_id: str, owner: Owner, rewritten: Callable[[bytes], bytes], request: RequestContext
    ) -> Changed | Unchanged:
        """Give each rule in force the condition worked out from its present one; none comes into force or out of it."""
        for row in self._attempts(subscription_id, owner, request.until):
            if not SubscriptionStatus(row.status).has_rules:
                return Unchanged.INVALID
            known = _in_generation(row)
            conditions = {key: rewritten(condition) for key, condition in known.items()}
            added = {key: condition for key, condition in conditions.items() if known[key] != condition}
            if changed := self._commit(row, added, {key: known[key] for key in added}, request):
                return changed
        return _given_up(subscription_id, owner)

    def discard(
        self, subscription_id: str, owner: Owner, keys: Collection[bytes], request: RequestContext
    ) -> Changed | Unchanged:
        """Put the rules for `keys` out of force; keys without a rule are passed over."""
        for row in self._attempts(subscription_id, owner, request.until):
            if not status_at(row, request.now).has_rules:
                return Unchanged.INVALID
            if changed := self._commit(row, {}, _in_force(row, keys), request):
                return changed
        return _given_up(subscription_id, owner)

    def _attempts(self, subscription_id: str, owner: Owner, until: float) -> Iterator[Subscription]:
        """The subscription as it is now, again after each lost race; ends if it is not there."""
        for attempt in range(WRITE_ATTEMPTS):
            if self._clock() > until:
                return
            row = owned(subscription_id, owner)
            if row is None:
                return
            yield row
            self._sleep(back_off(attempt))

    def _commit(self, row: Subscription, added: RuleSet, removed: RuleSet, request: RequestContext) -> Changed | None:
        """Change the rules, unless they have changed since `row` was read."""
        if len(added | removed) <= TRANSACTION_RULES:
            after = self._transact(row, added, removed, request.now)
            return Changed(after, added, removed) if after else None
        request.charge(2 * int(row.rule_count) + len(added) - len(removed))
        claim = claim_generation(row.subscription_id, Subscription.revision == row.revision)
        if claim is None:
            return None
        anew = {key: condition for key, condition in _in_generation(row).items() if key not in removed} | added
        if not self._write(row.subscription_id, claim, anew, request.until):
            return None
        after = flip(row.subscription_id, claim, len(anew), request.now, Subscription.revision == claim)
        return Changed(after, added, removed, anew) if after else None

    def _transact(self, row: Subscription, added: RuleSet, removed: RuleSet, now: int) -> Subscription | None:
        if not added and not removed:
            return row if _still(row) else None
        revision, rule_count = row.revision, row.rule_count + len(added) - len(removed)
        try:
            with TransactWrite(connection=self._connection) as write:
                write.update(
                    row,
                    actions=[
                        Subscription.revision.set(revision + 1),
                        Subscription.rule_count.set(rule_count),
                        Subscription.updated_at.set(now),
                    ],
                    condition=Subscription.revision == revision,
                )
                for key, condition in added.items():
                    write.save(_rule(row.subscription_id, row.generation, key, condition))
                for key in removed.keys() - added.keys():
                    write.delete(RuleRow(row.subscription_id, rule_key(int(row.generation), key)))
        except TransactWriteError as error:
            if lost_race(error):
                return None
            raise
        row.revision, row.rule_count, row.updated_at = revision + 1, rule_count, now
        return row

    def _replace_all(
        self, subscription_id: str, claim: int, rules: RuleSet, request: RequestContext
    ) -> Subscription | None:
        """None if a younger claim is in force; it replaced these rules only if it was a replacement too."""
        if not self._write(subscription_id, claim, rules, request.until):
            return None
        youngest, mark = Subscription.generation < claim, Subscription.replaced.set(claim)
        return flip(subscription_id, claim, len(rules), request.now, youngest, mark)

    def _write(self, subscription_id: str, claim: int, rules: RuleSet, until: float) -> bool:
        """Write the whole set under its claimed generation; False if time ran out."""
        self._request_cleanup(subscription_id, claim)
        for batch in batched(rules.items(), BATCH, strict=False):
            if self._clock() > until:
                return False
            rows = [_rule(subscription_id, claim, key, condition) for key, condition in batch]
            batch_write(self._connection, [{"PutRequest": {"Item": row.serialize()}} for row in rows])
        return True


def _takes_rules(owner: Owner) -> Condition:
    """Whether it is the owner's, and takes rules."""
    owned_by = (Subscription.client_id == owner.client_id) & (Subscription.network == owner.network)
    with_rules = [status.value for status in SubscriptionStatus if status.has_rules]
    condition: Condition = owned_by & Subscription.status.is_in(*with_rules)
    return condition


def _given_up(subscription_id: str, owner: Owner) -> Unchanged:
    return Unchanged.CONTENDED if owned(subscription_id, owner) else Unchanged.NOT_FOUND


def _still(row: Subscription) -> bool:
    now = owned(row.subscription_id, Owner(row.network, row.client_id))
    return now is not None and now.revision == row.revision


def _in_generation(row: Subscription, after: bytes | None = None, limit: int | None = None) -> RuleSet:
    """The rules of the generation that `row` names; all of them only if `row` is still current afterwards."""
    first, end = prefix(row.generation), prefix(row.generation + 1)
    if after is not None:
        first += after + b"\0"
    found = RuleRow.query(row.subscription_id, RuleRow.rule_key.between(first, end), consistent_read=True, limit=limit)
    return {rule.key: rule.condition or b"" for rule in found}


def _in_force(row: Subscription, keys: Collection[bytes]) -> RuleSet:
    """Those of `keys` that have a rule."""
    if len(keys) > TRANSACTION_RULES:
        rules = _in_generation(row)
        return {key: rules[key] for key in keys if key in rules}
    rows = [(row.subscription_id, rule_key(int(row.generation), key)) for key in keys]
    return {rule.key: rule.condition or b"" for rule in RuleRow.batch_get(rows, consistent_read=True)}


def _rule(subscription_id: str, generation: float, key: bytes, condition: bytes) -> RuleRow:
    return RuleRow(subscription_id, rule_key(int(generation), key), key=key, condition=condition or None)
