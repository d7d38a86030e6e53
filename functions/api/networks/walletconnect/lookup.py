"""The subscriptions of the accounts that a dapp names."""

from collections.abc import Collection, Mapping

from clarion.networks.walletconnect.subscriptions import NotifySubscription, account_key

_ATTRIBUTES = ["app", "account", "subscription_id", "scope", "state"]
"""Without the key of its notifications, which the router has no use for."""


def subscribers_of(app: str, accounts: Collection[str]) -> Mapping[str, NotifySubscription]:
    """The active ones, by the account as it is spelled here."""
    keys = {(app, account_key(account)) for account in accounts}
    rows = {row.account: row for row in NotifySubscription.batch_get(keys, attributes_to_get=_ATTRIBUTES)}
    found = {account: rows.get(account_key(account)) for account in accounts}
    return {account: row for account, row in found.items() if row is not None and row.is_active}
