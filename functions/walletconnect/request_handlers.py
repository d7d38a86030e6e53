"""What a request does, by its act, and what it is answered with."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pynamodb.connection import Connection

from clarion.networks.walletconnect.did import public_did
from clarion.networks.walletconnect.projects import DappApp
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.subscriptions import NotifySubscription
from clarion.networks.walletconnect.tags import ActName
from walletconnect import history, subscription_changes
from walletconnect.accepted_tokens import accept
from walletconnect.authorization import SignedRequest
from walletconnect.recipients import OpenedMessage, RequestRecipient
from walletconnect.refusals import NotServed, RefusalReason
from walletconnect.subscription_changes import Change, Make
from walletconnect.subscription_lists import ListChange, SubscriptionListing
from walletconnect.watch_requests import watch


class WalletRequest(NamedTuple):
    recipient: RequestRecipient
    message: OpenedMessage
    signed: SignedRequest

    @property
    def app(self) -> DappApp:
        if self.recipient.app is None:
            raise NotServed(RefusalReason.UNKNOWN_REQUEST)
        return self.recipient.app

    @property
    def subscription(self) -> NotifySubscription:
        row = self.recipient.subscription
        if row is None:
            raise NotServed(RefusalReason.UNKNOWN_REQUEST)
        return row


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """`claims` are those of the answer alone; `others` go to those who watch.

    The request was accepted at `at_ms`. `begun` is the subscription, if the request began it.
    `ended` is the topic that nothing more comes to, if the request ended it.
    """

    claims: Mapping[str, object] = field(repr=False)
    at_ms: int
    others: list[Publication] = field(default_factory=list)
    begun: NotifySubscription | None = None
    ended: str | None = None


@dataclass(frozen=True, slots=True)
class RequestHandlers:
    """Each may raise `NotServed`. `executor` marks many notifications at once."""

    connection: Connection
    executor: Executor

    def serve(self, act: ActName, request: WalletRequest, server: ServerKeys) -> Served:
        serve: Mapping[ActName, Callable[[WalletRequest, ServerKeys], Served]] = {
            ActName.SUBSCRIPTION: self._subscribe,
            ActName.UPDATE: self._update,
            ActName.DELETE: self._delete,
            ActName.WATCH_SUBSCRIPTIONS: self._watch,
            ActName.GET_NOTIFICATIONS: self._get,
            ActName.MARK_NOTIFICATIONS_AS_READ: self._mark,
        }
        return serve[act](request, server)

    def _subscribe(self, request: WalletRequest, server: ServerKeys) -> Served:
        signed = request.signed
        agreement = subscription_changes.agreement_key_for(signed, request.app.subscribe_key)
        change = self._change(
            request, subscription_changes.subscribe(signed, request.app, agreement, request.message.sender or b"")
        )
        of_document = {"sub": public_did(agreement)}
        begun = change.row.subscription_id == subscription_changes.subscription_id_of(signed)
        served = _changed(request, change, server, of_document)
        return replace(served, begun=change.row if begun else None)

    def _update(self, request: WalletRequest, server: ServerKeys) -> Served:
        change = self._change(request, subscription_changes.update(request.signed, request.app))
        return _changed(request, change, server, {"sub": request.signed.hash})

    def _delete(self, request: WalletRequest, server: ServerKeys) -> Served:
        change = self._change(request, subscription_changes.delete(request.signed))
        served = _changed(request, change, server, {"sub": change.row.hash})
        return replace(served, ended=request.subscription.topic)

    def _change(self, request: WalletRequest, make: Make) -> Change:
        return subscription_changes.change(self.connection, request.app.app, request.signed, make)

    def _watch(self, request: WalletRequest, _server: ServerKeys) -> Served:
        signed = request.signed
        at_ms = watch(signed, request.message.key)
        return Served(
            claims={"sbs": SubscriptionListing(signed.account, at_ms // 1000).seen_by(signed.app)}, at_ms=at_ms
        )

    def _get(self, request: WalletRequest, _server: ServerKeys) -> Served:
        """Changes nothing, so its token isn't noted: two readings of one second are signed alike."""
        row, at_ms = subscription_changes.require_active(request.subscription), request.signed.arrival.at_ms
        return Served(
            claims=history.page(request.app, row.subscription_id, request.signed.claims, at_ms // 1000), at_ms=at_ms
        )

    def _mark(self, request: WalletRequest, _server: ServerKeys) -> Served:
        """All of them, whatever else is named, if the wallet says so."""
        claims, row = request.signed.claims, subscription_changes.require_active(request.subscription)
        ids = None if claims["all"] else set(claims.get("ids") or ())
        at_ms = accept(request.signed)
        history.mark_as_read(row.subscription_id, ids, at_ms // 1000, self.executor)
        return Served(claims={}, at_ms=at_ms)


def _changed(request: WalletRequest, change: Change, server: ServerKeys, of_document: Mapping[str, object]) -> Served:
    """The document's wallets get a hash or a key, those of the shipped protocol all that they may see."""
    changed = ListChange.of(request.signed, change.at_ms // 1000)
    claims = of_document if request.signed.profile == "document" else {"sbs": changed.for_signer}
    return Served(claims=claims, at_ms=change.at_ms, others=changed.publications(server.authentication))
