"""Who has subscribed to a dapp: all of them, or some with what they take. For all of them, what they were sent is marked as read."""

from collections.abc import Collection, Mapping
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field, TypeAdapter

from api.networks.walletconnect.arguments import Account, DappArguments, Items
from api.networks.walletconnect.call import DappAnswer, ProjectCall
from api.networks.walletconnect.errors import unprocessable
from clarion.networks.walletconnect.buckets import MARK_ALL_AS_READ, SUBSCRIBERS_GET, SUBSCRIBERS_POST
from clarion.networks.walletconnect.read_marks import mark_read_through
from clarion.networks.walletconnect.subscriptions import NotifySubscription, account_key

MOST_READ = 50_000
"""Subscriptions for one answer, those included that have ended: Lambda's have 6 MB at most. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
MOST_SHOWN = 100
_MOST_CHARACTERS = 100
"""Of an account: the longest has 82."""

_ATTRIBUTES = ["app", "account", "subscription_id", "scope", "state"]
"""Without the key of its notifications, which the router has no use for."""


class SubscribersArguments(DappArguments):
    accounts: Annotated[Items[Account], Field(min_length=1, max_length=MOST_SHOWN)]


_ARGUMENTS = TypeAdapter(SubscribersArguments)


def list_subscribers(call: ProjectCall) -> DappAnswer:
    """Their accounts. If there are more, or more who have left, the header `Link` has the address of the next ones."""
    call.take_project_token(SUBSCRIBERS_GET)
    after = call.query("after")
    if after is not None and not 0 < len(after) <= _MOST_CHARACTERS:
        raise unprocessable("after: names no account")
    found = NotifySubscription.query(
        call.own_app,
        None if after is None else NotifySubscription.account > after,
        limit=MOST_READ,
        attributes_to_get=["account", "account_spelled", "state"],
    )
    rows = list(found)
    accounts = [row.account_spelled for row in rows if row.is_active]
    if len(rows) < MOST_READ:
        return DappAnswer.of(accounts)
    following = f"{call.event['rawPath']}?{urlencode({'after': rows[-1].account})}"
    return DappAnswer.of(accounts, Link=f'<{following}>; rel="next"')


def show_subscribers(call: ProjectCall) -> DappAnswer:
    """Those of the accounts that have subscribed, each with the types that it takes."""
    call.take_project_token(SUBSCRIBERS_POST)
    accounts = call.body(_ARGUMENTS).accounts
    found = subscribers_of(call.own_app, accounts)
    return DappAnswer.of(
        {account: {"notification_types": sorted(found[account].types)} for account in accounts if account in found}
    )


def mark_all_as_read(call: ProjectCall) -> DappAnswer:
    """Whatever the dapp has notified up to now counts as read by all of its subscribers."""
    call.take_project_token(MARK_ALL_AS_READ)
    mark_read_through(call.own_app, call.now)
    return DappAnswer()


def subscribers_of(app: str, accounts: Collection[str]) -> Mapping[str, NotifySubscription]:
    """The active ones, by the account as it is spelled here."""
    keys = {(app, account_key(account)) for account in accounts}
    rows = {row.account: row for row in NotifySubscription.batch_get(keys, attributes_to_get=_ATTRIBUTES)}
    found = {account: rows.get(account_key(account)) for account in accounts}
    return {account: row for account, row in found.items() if row is not None and row.is_active}
