"""`notify`: a dapp's notifications for its subscribers, of which each account is answered for itself.

    no active subscription ───────▶ not_found
    its scope lacks the type ─────▶ failed, "not subscribed to type"
    its bucket is empty ──────────▶ failed, "rate limit exceeded"
    else ─────────────────────────▶ sent: it is kept, and on the queue

A notification with an id is sent once to each subscriber, however often it is requested: all that is made of it follows
from the id, the time of its first use and its number, which whoever has it already keeps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from itertools import batched
from typing import Any

from pydantic import TypeAdapter

from api.networks.walletconnect.arguments import Items
from api.networks.walletconnect.call import DappAnswer, ProjectCall
from api.networks.walletconnect.errors import DappError, unprocessable
from api.networks.walletconnect.kept_notifications import Keeping, NewestNotification, newest_notification
from api.networks.walletconnect.notifications import NotificationArguments
from api.networks.walletconnect.subscribers import subscribers_of
from api.problems import Problem, ProblemKind
from clarion import sqs
from clarion.decisions import NotificationDecision
from clarion.metrics import decided
from clarion.networks.walletconnect.buckets import NOTIFY_OF_PROJECT
from clarion.networks.walletconnect.commands import (
    ACCOUNTS,
    DappNotification,
    NotifyAccount,
    NotifyCommand,
    message_of,
)
from clarion.networks.walletconnect.notifications import AddressedNotification, SentNotification
from clarion.networks.walletconnect.seen import first_seen
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from clarion.sqs import SqsMessage

MOST_NOTIFICATIONS = 500
"""Of one request: an account counts once for each notification."""
ID_SECONDS = 7 * 86_400
"""How long an id names the same notification."""

_ONE, _EACH = TypeAdapter(NotificationArguments), TypeAdapter(Items[NotificationArguments])

type Subscribers = Mapping[str, NotifySubscription]
"""By account."""


class NotifyFailure(StrEnum):
    NOT_IN_SCOPE = "not subscribed to type"
    RATE_LIMITED = "rate limit exceeded"


@dataclass(frozen=True)
class NamedNotification:
    """One that has an id, first used at `issued_at` (UNIX milliseconds); `repeated` if that was an earlier request."""

    arguments: NotificationArguments
    notification: DappNotification
    issued_at: int
    repeated: bool = False


@dataclass(frozen=True)
class NotifyOutcome:
    """What becomes of one notification; `sent` is what is kept, by account; `not_found` and `failed` are accounts."""

    named: NamedNotification
    sent: Mapping[str, SentNotification]
    not_found: Sequence[str]
    failed: Mapping[NotifyFailure, Sequence[str]]


def notify(call: ProjectCall) -> DappAnswer:
    return _notify(call, [call.body(_ONE)])


def notify_each(call: ProjectCall) -> DappAnswer:
    return _notify(call, call.body(_EACH))


def _notify(call: ProjectCall, arguments: list[NotificationArguments]) -> DappAnswer:
    call.take_project_token(NOTIFY_OF_PROJECT)
    _require_few(arguments)
    found = subscribers_of(call.own_app, {account for one in arguments for account in one.accounts})
    # Before any id is used: what is kept of one at the same time comes after these.
    newest = _newest(call, [row for one in arguments for row in _in_scope(one, found).values()])
    named = [_named(call, one) for one in arguments]
    outcomes = [_outcome(call, one, found, newest) for one in named]
    _queue(call, outcomes)
    _count_out_of_scope(call, outcomes)
    return DappAnswer.of(_merged(outcomes))


def _require_few(arguments: Sequence[NotificationArguments]) -> None:
    count = sum(len(one.accounts) for one in arguments)
    if count > MOST_NOTIFICATIONS:
        raise unprocessable(f"Too many notifications: {count} > {MOST_NOTIFICATIONS}")


def _in_scope(arguments: NotificationArguments, found: Subscribers) -> Subscribers:
    wanted = str(arguments.notification.type)
    return {
        account: found[account] for account in arguments.accounts if account in found and wanted in found[account].types
    }


def _newest(call: ProjectCall, subscribers: Sequence[NotifySubscription]) -> dict[str, NewestNotification]:
    """By subscription."""
    ids = {row.subscription_id for row in subscribers}
    return dict(zip(ids, call.worker.threads.map(newest_notification, ids), strict=True))


def _named(call: ProjectCall, arguments: NotificationArguments) -> NamedNotification:
    """Raises `DappError` if its id is another notification's."""
    notification, now = arguments.named(), call.now
    if arguments.notification_id is None:
        return NamedNotification(arguments, notification, now)
    key, digest = f"notification {call.project.project_id} {notification.id}", arguments.notification.digest
    first = first_seen(key, digest, at_ms=now, until=now // 1000 + ID_SECONDS)
    if first.holder != digest:
        raise DappError(HTTPStatus.CONFLICT, "notification_id is already that of another notification")
    return NamedNotification(arguments, notification, int(first.at), repeated=first.times > 1)


def _outcome(
    call: ProjectCall, named: NamedNotification, found: Subscribers, newest: dict[str, NewestNotification]
) -> NotifyOutcome:
    accounts, in_scope = named.arguments.distinct_accounts, _in_scope(named.arguments, found)
    sent = _kept(call, named, in_scope, newest)
    for row in sent.values():
        if row.number == newest[row.subscription_id].number + 1:
            newest[row.subscription_id] = NewestNotification.of(row)
    failed = {
        NotifyFailure.NOT_IN_SCOPE: [account for account in accounts if account in found and account not in in_scope],
        NotifyFailure.RATE_LIMITED: [account for account in in_scope if account not in sent],
    }
    return NotifyOutcome(named, sent, [account for account in accounts if account not in found], failed)


def _kept(
    call: ProjectCall, named: NamedNotification, subscribers: Subscribers, newest: Mapping[str, NewestNotification]
) -> dict[str, SentNotification]:
    """By account: of those who have it already, and of those whose bucket had a token."""
    project, issued_at = call.project.project_id, named.issued_at
    server, now = call.worker.settings.options.domain, call.now

    def keep(row: NotifySubscription) -> SentNotification | None:
        addressed = AddressedNotification(project, named.notification, row.subscription_id, issued_at)
        keeping, known = Keeping(addressed, server, now), newest[row.subscription_id]
        return (
            keeping.keep_unless_kept(known, known.number_before(issued_at)) if named.repeated else keeping.keep(known)
        )

    kept = call.worker.threads.map(keep, subscribers.values())
    return {account: row for account, row in zip(subscribers, kept, strict=True) if row is not None}


def _queue(call: ProjectCall, outcomes: Sequence[NotifyOutcome]) -> None:
    messages = [SqsMessage(message_of(each).to_json()) for one in outcomes for each in _commands(call, one)]
    worker = call.worker
    if any(sqs.send(worker.sqs, worker.settings.command_queue_url, messages, worker.threads)):
        raise Problem(ProblemKind.UNAVAILABLE, "some notifications were not queued", headers={"Retry-After": "2"})


def _commands(call: ProjectCall, outcome: NotifyOutcome) -> list[NotifyCommand]:
    receivers = [
        NotifyAccount(account=account, subscription_id=row.subscription_id, number=int(row.number))
        for account, row in outcome.sent.items()
    ]
    return [
        NotifyCommand(
            project_id=call.project.project_id,
            app=call.app,
            notification=outcome.named.notification,
            accounts=some,
            issued_at=outcome.named.issued_at,
        )
        for some in batched(receivers, ACCOUNTS, strict=False)
    ]


def _count_out_of_scope(call: ProjectCall, outcomes: Sequence[NotifyOutcome]) -> None:
    if count := sum(len(one.failed[NotifyFailure.NOT_IN_SCOPE]) for one in outcomes):
        call.worker.count(decided(NotificationDecision.NOT_IN_SCOPE), count)


def _merged(outcomes: Sequence[NotifyOutcome]) -> dict[str, Any]:
    """Of several notifications together: an account may have been sent one, and fail for another."""
    failed = dict.fromkeys(
        (account, reason) for one in outcomes for reason, accounts in one.failed.items() for account in accounts
    )
    return {
        "sent": list(dict.fromkeys(account for one in outcomes for account in one.sent)),
        "failed": [{"account": account, "reason": reason} for account, reason in failed],
        "not_found": list(dict.fromkeys(account for one in outcomes for account in one.not_found)),
    }
