"""An account's subscriptions as lists for wallets: in answers, and in messages to watchers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from clarion.networks.walletconnect.did import account_did
from clarion.networks.walletconnect.jwt import issue
from clarion.networks.walletconnect.notifications import newest_first
from clarion.networks.walletconnect.projects import DappApp
from clarion.networks.walletconnect.read_marks import is_read
from clarion.networks.walletconnect.relay import Publication
from clarion.networks.walletconnect.subscriptions import NotifySubscription, account_key
from clarion.networks.walletconnect.tags import ActName
from clarion.networks.walletconnect.watchers import ANY_APP, Watcher, apps_of, watchers_of
from walletconnect import rpc_messages
from walletconnect.answer_tokens import VERSION
from walletconnect.authorization import SignedRequest
from walletconnect.recipients import recipient_of
from walletconnect.rpc_messages import rpc_id_for

_CHANGED = ActName.SUBSCRIPTIONS_CHANGED
_METHOD, _MEMBER = "wc_notifySubscriptionsChanged", "subscriptionsChangedAuth"
_COUNTED = 100
"""Notifications of each subscription, the newest, of which the unread are counted."""
_TO_ALL = "0"
"""The version `mjv` of wallets that are sent their own changes, too."""

type Listed = Mapping[str, object]
"""A subscription, with the key of its topic."""


@dataclass(frozen=True, slots=True)
class SubscriptionListing:
    """An account's active subscriptions, each read once. `at` is in UNIX seconds."""

    account: str
    at: int
    _read: dict[str, Listed] = field(default_factory=dict, repr=False)

    def seen_by(self, app: str | None) -> list[Listed]:
        """The subscription to one app, or all of them for None, as they are now."""
        names = apps_of(self.account) if app is None else [app]
        if missing := [name for name in names if name not in self._read]:
            self._read.update(_list(self.account, missing, self.at))
        return [self._read[name] for name in names if name in self._read]


def _list(account: str, names: Sequence[str], at: int) -> dict[str, Listed]:
    key = account_key(account)
    rows = NotifySubscription.batch_get([(name, key) for name in names], consistent_read=True)
    active = {row.app: row for row in rows if row.is_active}
    apps = {app.app: app for app in DappApp.batch_get(list(active), consistent_read=True)} if active else {}
    return {name: _listed(active[name], apps[name], at) for name in apps}


def _listed(row: NotifySubscription, app: DappApp, at: int) -> Listed:
    """https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/clients/notify/data-structures.md"""
    return {
        "appDomain": row.app,
        "appAuthenticationKey": recipient_of(app).did,
        "symKey": row.sym_key.hex(),
        "account": row.account_spelled,
        "scope": sorted(row.types),
        "expiry": int(row.expiry),
        "unreadNotificationCount": _unread(row, app, at),
    }


def _unread(row: NotifySubscription, app: DappApp, at: int) -> int:
    return sum(not is_read(sent, app) for sent in newest_first(row.subscription_id, at, _COUNTED))


@dataclass(frozen=True, slots=True)
class ListChange:
    """What a changed subscription is answered with, and what is published to the watchers of its account."""

    listing: SubscriptionListing
    request: SignedRequest
    watchers: Sequence[Watcher]

    @classmethod
    def of(cls, request: SignedRequest, at: int) -> Self:
        """`at` is in UNIX seconds."""
        return cls(SubscriptionListing(request.account, at), request, watchers_of(request.account, at))

    @property
    def for_signer(self) -> list[Listed]:
        """What the answer lists."""
        own = [row for row in self.watchers if row.identity_key == self.request.signer]
        return self.listing.seen_by(None if any(row.app == ANY_APP for row in own) else self.request.app)

    def publications(self, server: Ed25519PrivateKey) -> list[Publication]:
        """For the watchers, without the wallet itself unless its version asks for them."""
        signer = None if self.request.claims.get("mjv") == _TO_ALL else self.request.signer
        others = [row for row in self.watchers if row.identity_key != signer]
        return [
            _changed(row, self.listing, self.request, server)
            for row in others
            if row.app in {ANY_APP, self.request.app}
        ]


def _changed(
    row: Watcher, listing: SubscriptionListing, request: SignedRequest, server: Ed25519PrivateKey
) -> Publication:
    listed = listing.seen_by(None if row.app == ANY_APP else row.app)
    claims = {"aud": row.identity_key, "sub": account_did(listing.account), "mjv": VERSION, "sbs": listed}
    token = issue(server, claims, act=_CHANGED, now=listing.at, profile="shipped")
    number = rpc_id_for(f"{row.watcher} {request.hash}")
    return rpc_messages.request(_CHANGED, number, _METHOD, {_MEMBER: token}, row.response_key)
