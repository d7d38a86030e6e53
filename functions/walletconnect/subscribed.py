"""Which apps an account has active subscriptions to, as it is now: an index may not have the last change yet.

A client deletes what it is not shown, so no subscription may be missing. The rows lie among the account's watchers, and are
written in one transaction with the subscriptions.
"""

from clarion.networks.walletconnect.subscriptions import account_key
from clarion.networks.walletconnect.watchers import SubscribedApp

MAX_APPS = 250
"""Of one account: each is read for every answer that lists them."""
_PREFIX = "app "


def subscribed_app(account: str, app: str) -> SubscribedApp:
    """The row, which is yet to be written."""
    return SubscribedApp(account_key(account), f"{_PREFIX}{app}")


def apps_of(account: str) -> list[str]:
    """Domains, sorted."""
    rows = SubscribedApp.query(account_key(account), SubscribedApp.name.startswith(_PREFIX), consistent_read=True)
    return [row.name.removeprefix(_PREFIX) for row in rows]
