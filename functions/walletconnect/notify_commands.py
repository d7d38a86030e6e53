"""Commands of dapps: a notification is composed for each subscriber, and sent to wallets and their phones."""

from collections.abc import Sequence
from dataclasses import dataclass

from clarion.decisions import NotificationDecision
from clarion.metrics import decided
from clarion.networks.walletconnect.commands import NotifyCommand
from clarion.networks.walletconnect.projects import app_of
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from walletconnect import notifying
from walletconnect.notifying import SubscriberMessage
from walletconnect.outbox import RELAY_FAILED, NotifyOutbox, NotSent
from walletconnect.recipients import recipient_of
from walletconnect.unpublished import find_unpublished, note_unpublished


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
        left = find_unpublished(command) if retried else None
        rows, sender = self._subscribers(command), recipient_of(app)
        messages = [
            notifying.compose(command, row, sender, self.domain)
            for row in rows
            if left is None or row.subscription_id in left
        ]
        self._send(command, messages, forwarded=left is not None)

    def _subscribers(self, command: NotifyCommand) -> Sequence[NotifySubscription]:
        """Those that take the type."""
        found = notifying.subscribers_of(command)
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
            note_unpublished(command, left)
            raise NotSent(RELAY_FAILED)
