"""Watchers: wallets that are sent each change of an account's subscriptions, for a day at a time.

An account has `MAX_WATCHERS` numbered places, and each watcher takes one, so concurrent requests can't exceed the limit.

Beside them lies which apps the account has active subscriptions to, as it is now: an index may not have the last change yet.
A client deletes what it is not sent, so no subscription may be missing: these rows are written in one transaction with the
subscriptions.
"""

from collections.abc import Sequence

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import WATCHERS
from clarion.networks.walletconnect.subscriptions import account_key

MAX_WATCHERS = 25
"""Of one account: no more can watch until one of them has ended."""
WATCH_SECONDS = 86_400
ANY_APP = "*"
MAX_APPS = 250
"""Of one account: each is read for every answer that lists them."""
_PREFIX, _APP_PREFIX = "watcher ", "app "


class Watcher(Model):
    """`watcher` is its place: see `PLACES`. It watches `app`, or `ANY_APP`, until `ttl`.

    `response_key` is the one agreed on, under which it is answered; the topic follows from it. `identity_key` is the
    did:key that it signs with. `iat` is that of the token that asked for it, in UNIX seconds.
    """

    class Meta:
        table_name = WATCHERS

    account = UnicodeAttribute(hash_key=True)
    watcher = UnicodeAttribute(range_key=True)
    response_key = BinaryAttribute(legacy_encoding=False)
    identity_key = UnicodeAttribute()
    app = UnicodeAttribute()
    iat = NumberAttribute(default=0)
    ttl = NumberAttribute()

    def __repr__(self) -> str:
        return f"Watcher({self.account}, {self.app})"


class SubscribedApp(Model):
    """An active subscription of the account, beside its watchers: `name` is `app <domain>`, which no watcher is called."""

    class Meta:
        table_name = WATCHERS

    account = UnicodeAttribute(hash_key=True)
    name = UnicodeAttribute(range_key=True, attr_name=Watcher.watcher.attr_name)

    def __repr__(self) -> str:
        return f"SubscribedApp({self.account}, {self.name})"


PLACES = tuple(f"{_PREFIX}{number:02}" for number in range(MAX_WATCHERS))


def watchers_of(account: str, now: int) -> Sequence[Watcher]:
    """Those that still watch, whatever app, as it is now; `now` is in UNIX seconds."""
    found = Watcher.query(account_key(account), Watcher.watcher.startswith(_PREFIX), consistent_read=True)
    return [row for row in found if row.ttl > now]


def subscribed_app(account: str, app: str) -> SubscribedApp:
    """The row, which is yet to be written."""
    return SubscribedApp(account_key(account), f"{_APP_PREFIX}{app}")


def apps_of(account: str) -> list[str]:
    """The domains that the account has subscribed to, sorted."""
    rows = SubscribedApp.query(account_key(account), SubscribedApp.name.startswith(_APP_PREFIX), consistent_read=True)
    return [row.name.removeprefix(_APP_PREFIX) for row in rows]
