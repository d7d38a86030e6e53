"""Who has subscribed to a dapp: all of them, or some with what they take."""

from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field, TypeAdapter

from api.networks.walletconnect.arguments import Account, DappArguments
from api.networks.walletconnect.call import DappAnswer, ProjectCall
from api.networks.walletconnect.errors import unprocessable
from api.networks.walletconnect.lookup import subscribers_of
from clarion.networks.walletconnect.buckets import SUBSCRIBERS_GET, SUBSCRIBERS_POST
from clarion.networks.walletconnect.subscriptions import NotifySubscription

MOST_READ = 50_000
"""Subscriptions for one answer, those included that have ended: Lambda's have 6 MB at most. https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""
MOST_SHOWN = 100


class SubscribersArguments(DappArguments):
    accounts: Annotated[list[Account], Field(min_length=1, max_length=MOST_SHOWN)]


_ARGUMENTS = TypeAdapter(SubscribersArguments)


def list_subscribers(call: ProjectCall) -> DappAnswer:
    """Their accounts. If there are more, or more who have left, the header `Link` has the address of the next ones."""
    call.take_project_token(SUBSCRIBERS_GET)
    after = call.query("after")
    if after == "":
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
