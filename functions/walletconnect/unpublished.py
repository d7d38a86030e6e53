"""Which subscribers' notifications the relay did not take, while all phones have been pushed.

    published, all of them ──▶ done
    published, some ─────────▶ forwarded to match, all of them ──▶ noted here ──▶ comes again: those alone are published

A row lies among what counts once, for as long as a command may come again.
"""

from collections.abc import Collection
from hashlib import sha256

from clarion.clock import now_ms
from clarion.networks.walletconnect.commands import NotifyCommand
from clarion.networks.walletconnect.seen import UnpublishedNotification
from clarion.tables import find_row

_KEPT_SECONDS = 14 * 86_400
"""As long as SQS keeps a message: `infra.queues.KEPT`."""


def find_unpublished(command: NotifyCommand) -> Collection[str] | None:
    """Ids of subscriptions; None if nothing is noted, and so all are to be published and forwarded."""
    row = find_row(UnpublishedNotification, _key_of(command))
    return None if row is None else set(row.subscriptions)


def note_unpublished(command: NotifyCommand, subscriptions: Collection[str]) -> None:
    ttl = now_ms() // 1000 + _KEPT_SECONDS
    UnpublishedNotification(_key_of(command), subscriptions=set(subscriptions), ttl=ttl).save()


def _key_of(command: NotifyCommand) -> str:
    return f"unpublished {sha256(command.to_json().encode()).hexdigest()}"
