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
from walletconnect import changing, history
from walletconnect.accepting import accept
from walletconnect.authorization import SignedRequest
from walletconnect.changing import Change, Make
from walletconnect.listing import ListChange, SubscriptionListing
from walletconnect.recipients import OpenedMessage, RequestRecipient
from walletconnect.refusals import NotServed, RefusalReason
from walletconnect.watching import watch


class WalletRequest(NamedTuple):
    recipient: RequestRecipient
    message: OpenedMessage
    request: SignedRequest

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

    def serve(self, act: ActName, asked: WalletRequest, server: ServerKeys) -> Served:
        serve: Mapping[ActName, Callable[[WalletRequest, ServerKeys], Served]] = {
            ActName.SUBSCRIPTION: self._subscribe,
            ActName.UPDATE: self._update,
            ActName.DELETE: self._delete,
            ActName.WATCH_SUBSCRIPTIONS: self._watch,
            ActName.GET_NOTIFICATIONS: self._get,
            ActName.MARK_NOTIFICATIONS_AS_READ: self._mark,
        }
        return serve[act](asked, server)

    def _subscribe(self, asked: WalletRequest, server: ServerKeys) -> Served:
        request = asked.request
        agreement = changing.agreement_key_for(request, asked.app.subscribe_key)
        change = self._change(asked, changing.subscribe(request, asked.app, agreement, asked.message.sender or b""))
        of_document = {"sub": public_did(agreement)}
        begun = change.row.subscription_id == changing.subscription_id_of(request)
        served = _changed(asked, change, server, of_document)
        return replace(served, begun=change.row if begun else None)

    def _update(self, asked: WalletRequest, server: ServerKeys) -> Served:
        change = self._change(asked, changing.update(asked.request, asked.app))
        return _changed(asked, change, server, {"sub": asked.request.hash})

    def _delete(self, asked: WalletRequest, server: ServerKeys) -> Served:
        change = self._change(asked, changing.delete(asked.request))
        served = _changed(asked, change, server, {"sub": change.row.hash})
        return replace(served, ended=asked.subscription.topic)

    def _change(self, asked: WalletRequest, make: Make) -> Change:
        return changing.change(self.connection, asked.app.app, asked.request, make)

    def _watch(self, asked: WalletRequest, _server: ServerKeys) -> Served:
        request = asked.request
        at_ms = watch(request, asked.message.key)
        return Served(
            claims={"sbs": SubscriptionListing(request.account, at_ms // 1000).seen_by(request.app)}, at_ms=at_ms
        )

    def _get(self, asked: WalletRequest, _server: ServerKeys) -> Served:
        """Changes nothing, so its token isn't noted: two readings of one second are signed alike."""
        row, at_ms = changing.require_active(asked.subscription), asked.request.arrival.at_ms
        return Served(
            claims=history.page(asked.app, row.subscription_id, asked.request.claims, at_ms // 1000), at_ms=at_ms
        )

    def _mark(self, asked: WalletRequest, _server: ServerKeys) -> Served:
        """All of them, whatever else is named, if the wallet says so."""
        claims, row = asked.request.claims, changing.require_active(asked.subscription)
        ids = None if claims["all"] else set(claims.get("ids") or ())
        at_ms = accept(asked.request)
        history.mark_as_read(row.subscription_id, ids, at_ms // 1000, self.executor)
        return Served(claims={}, at_ms=at_ms)


def _changed(asked: WalletRequest, change: Change, server: ServerKeys, of_document: Mapping[str, object]) -> Served:
    """The document's wallets get a hash or a key, those of the shipped protocol all that they may see."""
    changed = ListChange.of(asked.request, change.at_ms // 1000)
    claims = of_document if asked.request.profile == "document" else {"sbs": changed.shown}
    return Served(claims=claims, at_ms=change.at_ms, others=changed.publications(server.authentication))
