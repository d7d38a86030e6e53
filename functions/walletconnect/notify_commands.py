"""Commands of dapps: a notification is composed for each subscriber, and sent to wallets and their phones.

    published, all of them ──▶ done
    published, some ─────────▶ forwarded to match, all of them ──▶ noted ──▶ comes again: those alone are published

What the relay did not take is noted among what counts once, for as long as a command may come again. A new subscriber's
first command is its project's welcome, if that has set one.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

from clarion.clock import now_ms
from clarion.decisions import NotificationDecision
from clarion.metrics import decided
from clarion.networks.walletconnect.commands import DappNotification, NotifyAccount, NotifyCommand
from clarion.networks.walletconnect.notifications import WELCOME_NUMBER
from clarion.networks.walletconnect.projects import DappApp, ProjectState, app_of, find_project
from clarion.networks.walletconnect.seen import UnpublishedNotification
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from clarion.tables import find_row
from walletconnect import subscriber_messages
from walletconnect.outbox import RELAY_FAILED, NotifyOutbox, NotSent
from walletconnect.recipients import recipient_of
from walletconnect.subscriber_messages import SubscriberMessage

_KEPT_SECONDS = 14 * 86_400
"""As long as SQS keeps a message: `infra.queues.KEPT`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyCommandHandler:
    """`domain` is the Notify server's, which the links of notifications lead to. What fails raises, as `NotSent` does."""

    domain: str
    outbox: NotifyOutbox

    def handle(self, command: NotifyCommand, *, retried: bool = False) -> None:
        """Drops the command of a project that no longer has the domain. `retried`: it was received before."""
        app = app_of(command.project_id, command.app)
        if app is None:
            return
        left = _find_unpublished(command) if retried else None
        rows, sender = self._subscribers(command), recipient_of(app)
        messages = [
            subscriber_messages.compose(command, row, sender, self.domain)
            for row in rows
            if left is None or row.subscription_id in left
        ]
        self._send(command, messages, forwarded=left is not None)

    def _subscribers(self, command: NotifyCommand) -> Sequence[NotifySubscription]:
        """Those that take the type."""
        found = subscriber_messages.subscribers_of(command)
        wanting = [row for row in found if command.notification.type in row.types]
        self.outbox.counts[decided(NotificationDecision.NOT_IN_SCOPE)] += len(found) - len(wanting)
        return wanting

    def _send(self, command: NotifyCommand, messages: Sequence[SubscriberMessage], *, forwarded: bool) -> None:
        """Phones are pushed once, whatever the relay does. Raises `NotSent`."""
        published = self.outbox.try_publish([one.publication for one in messages])
        if not forwarded:
            self.outbox.forward([one.envelope for one in messages])
        left = [one.row.subscription_id for one, done in zip(messages, published, strict=True) if not done]
        if left:
            _note_unpublished(command, left)
            raise NotSent(RELAY_FAILED)


def welcome_for(app: DappApp, row: NotifySubscription, at_ms: int) -> NotifyCommand | None:
    """None unless the project is active and has a welcome of a type that the subscriber takes. `at_ms`: UNIX ms."""
    project = find_project(app.project_id)
    if project is None or project.state != ProjectState.ACTIVE:
        return None
    welcome = project.welcome
    if not welcome or not welcome["enabled"] or welcome["type"] not in row.types:
        return None
    content = {name: welcome[name] for name in ("type", "title", "body", "url")}
    notification = DappNotification(id=f"welcome {row.subscription_id}", **content)
    account = NotifyAccount(account=row.account_spelled, subscription_id=row.subscription_id, number=WELCOME_NUMBER)
    return NotifyCommand(
        project_id=project.project_id, app=app.app, notification=notification, accounts=(account,), issued_at=at_ms
    )


def _find_unpublished(command: NotifyCommand) -> Collection[str] | None:
    """Ids of subscriptions; None if nothing is noted, and so all are to be published and forwarded."""
    row = find_row(UnpublishedNotification, _key_of(command))
    return None if row is None else set(row.subscriptions)


def _note_unpublished(command: NotifyCommand, subscriptions: Collection[str]) -> None:
    ttl = now_ms() // 1000 + _KEPT_SECONDS
    UnpublishedNotification(_key_of(command), subscriptions=set(subscriptions), ttl=ttl).save()


def _key_of(command: NotifyCommand) -> str:
    return f"unpublished {sha256(command.to_json().encode()).hexdigest()}"
