"""Subscriptions that are there, whatever their network: changing, listing by pages, removing."""

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self
from uuid import UUID

from api.problems import Problem, ProblemKind
from api.worker import ClientRequest
from clarion import base64url, proofs, subscriptions
from clarion.addresses import canonical
from clarion.channels import CHANNELS, Channel
from clarion.events import SubscriptionChanged
from clarion.generations import WRITE_ATTEMPTS, back_off
from clarion.networks import network
from clarion.rulesets import Owner, RuleSet, Unchanged
from clarion.subscriptions import ExtraWrites, no_extra_writes
from clarion.tables import Subscription, find_subscription
from clarion.wake_ups import CHANNELS as WAKING

UUID_BYTES, REVISION_BYTES = 16, 8


def own(request: ClientRequest, subscription_id: UUID) -> Subscription:
    """The client's subscription of this id, in whatever network; not one that is merely reserved, without an address."""
    row = find_subscription(str(subscription_id))
    if row is None or row.client_id != request.client or not row.token:
        raise Problem(ProblemKind.NO_SUBSCRIPTION)
    return row


def remove(
    request: ClientRequest, owner: Owner, subscription_ids: Sequence[str], extra_writes: ExtraWrites = no_extra_writes
) -> None:
    """All of them or, if one is not the owner's, none."""
    outcome = removed(request, owner, subscription_ids, request.worker.now(), extra_writes)
    if outcome is Unchanged.NOT_FOUND:
        raise Problem(ProblemKind.NO_SUBSCRIPTION, "nothing was removed")
    if outcome is not None:
        raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})


def removed(
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


def change(request: ClientRequest, subscription_id: UUID, changes: Mapping[str, Any]) -> Subscription:
    """Change attributes by their names, or remove those that are None."""
    for attempt in range(WRITE_ATTEMPTS):
        row, now = own(request, subscription_id), request.worker.now()
        if not proofs.status_at(row, now).has_rules:
            raise Problem(ProblemKind.SUBSCRIPTION_INVALID)
        check_options(request, Channel(row.channel), changes)
        if changed := subscriptions.change(request.worker.connection, row, changes, now=now):
            return changed
        time.sleep(back_off(attempt))
    raise Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})


def check_options(request: ClientRequest, channel: Channel, options: Mapping[str, Any]) -> None:
    """Raises `Problem` for what a subscription of this channel can't have; `options` are attributes by their names."""
    app = options.get("app")
    if app is not None and app not in request.worker.settings.apps[channel]:
        raise invalid_field("app", f"must be an app that this deployment reaches by {channel}")
    if options.get("wake_every_minutes") is not None and channel not in WAKING:
        raise invalid_field("wake_every_minutes", f"is for {' and '.join(WAKING)} alone")
    if options.get("device_key") is not None and not CHANNELS[channel].takes_device_key:
        raise invalid_field("device_key", "is for no webhook")


def canonical_token(row: Subscription, channel: Channel | None, token: str) -> str:
    """As it is stored. An address of the webhook names its client, so none may be given to it."""
    if channel not in {None, row.channel}:
        raise invalid_field("notificationType", f"must be that of the subscription: {row.channel}")
    if row.channel == Channel.WEBHOOK:
        raise invalid_field("token", "can't be replaced by this request")
    try:
        return canonical(Channel(row.channel), token)
    except ValueError as error:
        raise invalid_field("token", str(error)) from None


def invalid_field(field: str, rule: str) -> Problem:
    """What a field of the body has to be, and is not."""
    return Problem(ProblemKind.INVALID, more={"errors": [{"field": field, "rule": rule}]})


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
