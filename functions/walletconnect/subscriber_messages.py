"""A dapp's notification for some of its subscribers: each gets its own, by the relay and by the wallet's pushes.

    to match, which finds the phones ──▶ published

It is kept already, for history and receipts, and all that is sent follows from the command: so one that is handled again
sends the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID, uuid5

from clarion.messages import EnvelopeMessage
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect import notifications
from clarion.networks.walletconnect.acts import LONG, Profile
from clarion.networks.walletconnect.commands import NotifyCommand
from clarion.networks.walletconnect.did import account_did
from clarion.networks.walletconnect.jwt import issue
from clarion.networks.walletconnect.notifications import AddressedNotification, SentNotification
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.sealed import SealedNotification
from clarion.networks.walletconnect.subscriptions import NotifySubscription, account_key
from clarion.networks.walletconnect.tags import ActName
from walletconnect import rpc_messages
from walletconnect.answer_tokens import VERSION, key_server_of
from walletconnect.recipients import RequestRecipient
from walletconnect.rpc_messages import rpc_id_of

_METHOD, _MEMBER = "wc_notifyMessage", "messageAuth"
_RECEIPTS = UUID("3f6a0d1c-1f57-4d5e-8f0a-6f3f6b0c9d21")
"""The namespace of the receipts that are made here."""


@dataclass(frozen=True, slots=True)
class SubscriberMessage:
    """One subscriber's notification as it is kept, what is published of it, and what its phones are sent."""

    row: SentNotification
    publication: Publication
    sealed: SealedNotification

    @property
    def envelope(self) -> EnvelopeMessage:
        """It counts as observed when the dapp asked for it."""
        receipt, observed_at = receipt_of(self.sealed.envelope_id), int(self.row.sent_at)
        return EnvelopeMessage(network=WALLETCONNECT, receipt=receipt, observed_at=observed_at, raw=self.sealed.raw)


def receipt_of(envelope_id: bytes) -> UUID:
    """What ties together all that comes of one subscriber's notification."""
    return uuid5(_RECEIPTS, envelope_id.hex())


def subscribers_of(command: NotifyCommand) -> list[NotifySubscription]:
    """Those of the command's that still subscribe, whatever their scope is by now.

    Who is not found at first may have subscribed just now, and is looked for again, at twice the price.
    """
    wanted = {account_key(one.account): one.subscription_id for one in command.accounts}
    found = _subscribers(command.app, wanted)
    missing = {account: wanted[account] for account in wanted.keys() - {row.account for row in found}}
    return [*found, *_subscribers(command.app, missing, consistent_read=True)]


def _subscribers(app: str, wanted: Mapping[str, str], *, consistent_read: bool = False) -> list[NotifySubscription]:
    """`wanted` are subscriptions by account."""
    keys = [(app, account) for account in wanted]
    rows = NotifySubscription.batch_get(keys, consistent_read=consistent_read)
    return [row for row in rows if row.is_active and row.subscription_id == wanted[row.account]]


def compose(
    command: NotifyCommand, row: NotifySubscription, sender: RequestRecipient, server: str
) -> SubscriberMessage:
    """`sender` is the app that signs; `server` is the Notify server's domain, which the link leads to."""
    sent = _row(command, row.subscription_id, server)
    publication = _publication(sent, row, sender)
    sealed = SealedNotification(
        row.topic,
        publication.message,
        UUID(command.notification.type),
        sent.notification_id,
        expires_at=command.issued_at // 1000 + LONG,
    )
    return SubscriberMessage(sent, publication, sealed)


def keep(command: NotifyCommand, server: str) -> None:
    """For a command that no router has made."""
    for one in command.accounts:
        notifications.add(_row(command, one.subscription_id, server))


def _row(command: NotifyCommand, subscription_id: str, server: str) -> SentNotification:
    addressed = AddressedNotification(command.project_id, command.notification, subscription_id, command.issued_at)
    return addressed.row(command.number_for(subscription_id), server)


def _publication(sent: SentNotification, row: NotifySubscription, sender: RequestRecipient) -> Publication:
    account = account_did(row.account_spelled)
    profile: Profile = "document" if row.profile == "document" else "shipped"
    if profile == "document":
        claims: dict[str, object] = {"ksu": key_server_of(sender), "aud": account, "sub": row.hash, "msg": sent.content}
    else:
        claims = {"sub": account, "mjv": VERSION, "msg": _shipped(sent)}
    now = int(sent.sent_at) // 1000
    token = issue(sender.signing_key, {**claims, "app": sender.app_did}, act=ActName.MESSAGE, now=now, profile=profile)
    return rpc_messages.request(ActName.MESSAGE, rpc_id_of(sent), _METHOD, {_MEMBER: token}, row.sym_key)


def _shipped(sent: SentNotification) -> dict[str, object]:
    """The claim `msg` of the shipped protocol."""
    return {"id": sent.notification_id, "sent_at": int(sent.sent_at), **sent.content, "is_read": False}
