"""Subscriptions that are there, whatever their network: changing and removing them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from api.problems import Problem, ProblemKind, contended
from api.worker import ClientRequest
from clarion import proofs, subscriptions
from clarion.addresses import canonical
from clarion.backoff import WRITE_ATTEMPTS, back_off
from clarion.channels import CHANNELS, Channel
from clarion.rulesets import Owner, Unchanged
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import Subscription, find_subscription
from clarion.wake_ups import WAKING


def own(request: ClientRequest, subscription_id: UUID) -> Subscription:
    """The client's subscription of this id, in whatever network; not one that is merely reserved, without an address."""
    row = find_subscription(str(subscription_id))
    if row is None or row.client_id != request.client or not row.token:
        raise Problem(ProblemKind.NO_SUBSCRIPTION)
    return row


def remove(request: ClientRequest, owner: Owner, subscription_ids: Sequence[str]) -> None:
    """All of them or, if one is not the owner's, none."""
    outcome = removed(request, owner, subscription_ids, request.worker.now())
    if outcome is Unchanged.NOT_FOUND:
        raise Problem(ProblemKind.NO_SUBSCRIPTION, "nothing was removed")
    if outcome is not None:
        raise contended()


def removed(request: ClientRequest, owner: Owner, subscription_ids: Sequence[str], now: int) -> Unchanged | None:
    """Remove all of them, or say why none was removed. The clean-up erases their rules."""
    worker = request.worker
    removed = subscriptions.remove(
        worker.connection,
        subscription_ids,
        owner,
        request_cleanup=lambda: worker.cleanup.send(subscription_ids),
        kept_beside=worker.kept_beside,
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
    raise contended()


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
