"""The life of subscriptions, whatever their network: registering, listing by pages, removing."""

import time
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple, Self
from uuid import UUID

from api.problems import Problem, ProblemKind
from api.worker import ClientRequest
from clarion import base64url, subscriptions
from clarion.addresses import may_be_pushed_to
from clarion.decisions import SubscriptionStatus
from clarion.events import SubscriptionChanged
from clarion.generations import back_off
from clarion.networks import network
from clarion.rulesets import Owner, RuleSet, Unchanged, owned
from clarion.subscriptions import ExtraWrites, Registration, TokenTaken, no_extra_writes
from clarion.tables import Subscription

UUID_BYTES, REVISION_BYTES = 16, 8
PUT_ATTEMPTS = 5


def register(request: ClientRequest, registration: Registration) -> str:
    """The new subscription's id. A token belongs to one subscription; its owner learns which one if there is one."""
    worker = request.worker
    _check_reachable(request, registration)
    now = worker.now()
    made = subscriptions.holder(registration) or _made(request, registration, now)
    if isinstance(made, TokenTaken):
        mine = {"subscription_id": made.subscription_id} if made.owner == registration.owner else {}
        raise Problem(ProblemKind.TOKEN_TAKEN, more=mine)
    if isinstance(made, Unchanged):
        raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})
    worker.events.add(SubscriptionChanged.of(made, now))
    return made.subscription_id


def put(request: ClientRequest, registration: Registration, extra_writes: ExtraWrites) -> None:
    """Make the subscription that `registration` names, or give it this address; it keeps its rules.

    A token that another subscription of the same owner has is taken from that one, which ends: the device that has the
    token goes by the newer name.
    """
    owner, subscription_id = registration.owner, registration.subscription_id
    _check_reachable(request, registration)
    for attempt in range(PUT_ATTEMPTS):
        if time.monotonic() > request.until:
            break
        now = request.worker.now()
        made = _put(request, registration, now, extra_writes)
        if isinstance(made, Subscription):
            request.worker.events.add(SubscriptionChanged.of(made, now))
            return
        if isinstance(made, TokenTaken) and made.owner != owner:
            raise Problem(ProblemKind.TOKEN_TAKEN)
        if isinstance(made, TokenTaken) and made.subscription_id != subscription_id:
            _remove(request, owner, [made.subscription_id], now)
        time.sleep(back_off(attempt))
    raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})


def remove(
    request: ClientRequest, owner: Owner, subscription_ids: Sequence[str], extra_writes: ExtraWrites = no_extra_writes
) -> None:
    """All of them or, if one is not the owner's, none."""
    outcome = _remove(request, owner, subscription_ids, request.worker.now(), extra_writes)
    if outcome is Unchanged.NOT_FOUND:
        raise Problem(ProblemKind.NO_SUBSCRIPTION, "nothing was removed")
    if outcome is not None:
        raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})


class Cursor(NamedTuple):
    """Where a page begins: at a subscription, and within it after a rule, as long as the rules are those of `revision`.

    Its text is base64url without padding, of a UUID, a revision (8 bytes) and the rule's key but for the network's
    number, with which the keys of a network all begin.
    """

    subscription_id: str
    revision: int | None = None
    after: bytes | None = None

    def __str__(self) -> str:
        raw = UUID(self.subscription_id).bytes
        if self.revision is not None and self.after is not None:
            raw += self.revision.to_bytes(REVISION_BYTES) + self.after[1:]
        return base64url.encode(raw)

    @classmethod
    def parse(cls, text: str, network_name: str) -> Self:
        """Undo `str`, for a text of the right length and alphabet."""
        raw = base64url.decode(text)
        subscription_id = str(UUID(bytes=raw[:UUID_BYTES]))
        if len(raw) == UUID_BYTES:
            return cls(subscription_id)
        revision, after = raw[UUID_BYTES : UUID_BYTES + REVISION_BYTES], raw[UUID_BYTES + REVISION_BYTES :]
        return cls(subscription_id, int.from_bytes(revision), bytes([network(network_name).number]) + after)


class ListedSubscription(NamedTuple):
    """Some of a subscription's rules, and whether there are more after them."""

    row: Subscription
    rules: RuleSet
    more: bool


class ListingPage(NamedTuple):
    """Subscriptions with as many rules as fit, and where the next page begins."""

    listed: Sequence[ListedSubscription]
    following: Cursor | None = None


def page(request: ClientRequest, owner: Owner, begin: Cursor | None) -> ListingPage:
    """The owner's subscriptions from `begin` on, with at most `rules_per_page` rules together."""
    left, listed = request.worker.settings.rules_per_page, list[ListedSubscription]()
    for subscription_id in (row.subscription_id for row in subscriptions.of_owner(owner)):
        if begin and subscription_id < begin.subscription_id:
            continue
        if left == 0:
            return ListingPage(listed, Cursor(subscription_id))
        here = begin if begin and subscription_id == begin.subscription_id else Cursor(subscription_id)
        one = _listed(request, owner, here, left)
        if one is None:
            continue
        listed.append(one)
        if one.more:
            return ListingPage(listed, Cursor(subscription_id, int(one.row.revision), next(reversed(one.rules))))
        left -= len(one.rules)
    return ListingPage(listed)


def _listed(request: ClientRequest, owner: Owner, here: Cursor, limit: int) -> ListedSubscription | None:
    """None if the subscription has meanwhile gone."""
    rule_sets = request.worker.rule_sets
    found = rule_sets.read(here.subscription_id, owner, after=here.after, limit=limit + 1, until=request.until)
    match found:
        case Unchanged.NOT_FOUND:
            return None
        case Unchanged():
            raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})
        case row, rules:
            if here.revision is not None and here.revision != row.revision:
                raise Problem(ProblemKind.RULES_CHANGED, "begin again without a cursor")
            return ListedSubscription(row, dict(islice(rules.items(), limit)), more=len(rules) > limit)


def _check_reachable(request: ClientRequest, registration: Registration) -> None:
    app, channel, apps = registration.app, registration.channel, request.worker.settings.apps
    if channel not in apps:
        there = [name for name in network(registration.network).channels if name in apps]
        errors = [{"field": "notificationType", "rule": f"must be one that this deployment has: {', '.join(there)}"}]
        raise Problem(ProblemKind.INVALID, more={"errors": errors})
    if app is not None and app not in apps[channel]:
        errors = [{"field": "app", "rule": f"must be an app that this deployment reaches by {channel}"}]
        raise Problem(ProblemKind.INVALID, more={"errors": errors})
    if not may_be_pushed_to(channel, registration.token, request.worker.settings.push_services):
        errors = [{"field": "token", "rule": "must have an endpoint at a push service that this deployment sends to"}]
        raise Problem(ProblemKind.INVALID, more={"errors": errors})


def _put(
    request: ClientRequest, registration: Registration, now: int, extra_writes: ExtraWrites
) -> Subscription | TokenTaken | Unchanged:
    row = owned(registration.subscription_id, registration.owner) if registration.subscription_id else None
    if row is not None:
        return subscriptions.move(request.worker.connection, row, registration, now=now, extra_writes=extra_writes)
    return subscriptions.holder(registration) or _made(request, registration, now, extra_writes)


def _made(
    request: ClientRequest, registration: Registration, now: int, extra_writes: ExtraWrites = no_extra_writes
) -> Subscription | TokenTaken | Unchanged:
    """A phone that gets new tokens must not lock itself out: its oldest dead subscription gives way."""
    limit = request.worker.settings.subscriptions_per_client
    rows = subscriptions.of_owner(registration.owner)
    dead = sorted((row for row in rows if row.status != SubscriptionStatus.ACTIVE), key=lambda row: row.updated_at)
    if len(rows) - len(dead) >= limit:
        raise Problem(ProblemKind.TOO_MANY_SUBSCRIPTIONS, f"at most {limit}")
    surplus = max(len(rows) - limit + 1, 0)
    if surplus:
        outcome = _remove(request, registration.owner, [row.subscription_id for row in dead[:surplus]], now)
        if outcome is Unchanged.CONTENDED:
            return outcome
    return subscriptions.register(request.worker.connection, registration, now=now, extra_writes=extra_writes)


def _remove(
    request: ClientRequest,
    owner: Owner,
    subscription_ids: Sequence[str],
    now: int,
    extra_writes: ExtraWrites = no_extra_writes,
) -> Unchanged | None:
    """Remove all of them, or say why none was removed. The clean-up erases their rules."""
    worker = request.worker
    removed = subscriptions.remove(
        worker.connection,
        subscription_ids,
        owner,
        request_cleanup=lambda: worker.cleanup.send(subscription_ids),
        extra_writes=extra_writes,
    )
    if isinstance(removed, Unchanged):
        return removed
    for row in removed:
        worker.events.add(SubscriptionChanged.of_removed(row, now))
    return None
