"""WalletConnect through the deployed stack: the client that wallets have, dapps, and what either can't do."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import pytest_asyncio

from local.system import PATIENCE, System
from local.walletconnect.account import EthereumAccount
from local.walletconnect.acts import Generation
from local.walletconnect.client import NotifyClient
from local.walletconnect.codec import topic_of
from local.walletconnect.dapp import SUBSCRIBE_KEY
from local.walletconnect.story import DappSite, dapp_site
from local.walletconnect.wallet import WalletRefusal

MONTH_S = 30 * 24 * 60 * 60
SENT_BY_SERVER = {4001, 4002, 4005, 4009}
pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def site(system: System) -> AsyncIterator[DappSite]:
    """A dapp of the test's own with two types of notification."""
    async with dapp_site(system, f"{uuid4().hex[:8]}.dapp.example", "Promotions", "Alerts") as site:
        yield site


def new_account() -> EthereumAccount:
    return EthereumAccount(uuid4().hex)


async def test_the_client_that_wallets_have_does_all_it_can(system: System, site: DappSite) -> None:
    async with asyncio.timeout(PATIENCE), system.walletconnect.client() as client:
        await play(site, client, new_account())

    folder = system.deployment.emulator.folder
    (folder / "notify-client.json").write_text(json.dumps(client.transcript, indent=1, ensure_ascii=False))


async def play(site: DappSite, client: NotifyClient, account: EthereumAccount) -> None:
    domain, (promotions, alerts) = site.dapp.domain, site.dapp.types
    await client.register(account, domain)
    watched = await client.event("notify_subscriptions_changed")
    assert watched == {"subscriptions": []}

    assert await client.call("subscribe", account=account.caip10, appDomain=domain) is True
    [(topic, subscription)] = (await client.call("getActiveSubscriptions", account=account.caip10)).items()
    assert {name for name, each in subscription["scope"].items() if each["enabled"]} == {promotions.id, alerts.id}

    notification = {"type": promotions.id, "title": "Hello ✓", "body": "Grüße ???>>>~~~"}
    answer = await site.backend.notify([account.caip10], notification)
    assert (answer["sent"], answer["failed"], answer["not_found"]) == ([account.caip10], [], [])
    message = (await client.event("notify_message"))["message"]
    assert {name: message[name] for name in notification} == notification

    [listed] = (await client.call("getNotificationHistory", topic=topic))["notifications"]
    assert (listed["title"], listed["isRead"]) == ("Hello ✓", False)
    await client.call("markNotificationsAsRead", topic=topic, notificationIds=[listed["id"]])
    [read] = (await client.call("getNotificationHistory", topic=topic))["notifications"]
    assert (read["id"], read["isRead"]) == (listed["id"], True)

    assert await client.call("update", topic=topic, scope=[alerts.id]) is True
    types = await client.call("getNotificationTypes", appDomain=domain)
    assert {name: each["enabled"] for name, each in types.items()} == {promotions.id: False, alerts.id: True}
    answer = await site.backend.notify([account.caip10], notification)
    assert [each["account"] for each in answer["failed"]] == [account.caip10]

    await client.call("deleteSubscription", topic=topic)
    assert await client.call("getActiveSubscriptions", account=account.caip10) == {}
    answer = await site.backend.notify([account.caip10], notification)
    assert answer["not_found"] == [account.caip10]


@pytest.mark.parametrize("generation", Generation)
async def test_a_wallet_of_either_generation_is_notified_and_leaves(
    system: System, site: DappSite, generation: Generation
) -> None:
    promotions, alerts = site.dapp.types
    async with asyncio.timeout(PATIENCE), system.walletconnect.wallet(new_account(), generation) as wallet:
        await wallet.register(site.dapp.domain, all_apps=False)
        subscription = await wallet.subscribe(site.dapp, [promotions.id])
        answer = await site.notify(promotions, wallet, title="first")
        assert answer["sent"] == [wallet.account]
        assert (await wallet.message()).content["title"] == "first"

        updated = await wallet.update(subscription, [alerts.id])
        await site.notify(alerts, wallet, title="second")
        assert (await wallet.message()).content["title"] == "second"

        await wallet.delete(updated, "too many of them")
        assert (await site.notify(alerts, wallet))["not_found"] == [wallet.account]

    sent = [message for message in system.walletconnect.relay.published if message.topic == subscription.topic]
    by_server = [(message.tag, message.ttl, message.prompt) for message in sent if message.tag in SENT_BY_SERVER]
    assert sorted(by_server) == [
        (4002, MONTH_S, True),
        (4002, MONTH_S, True),
        (4005, MONTH_S, False),
        (4009, MONTH_S, False),
    ]


async def test_a_watcher_learns_what_another_wallet_of_the_account_does(system: System, site: DappSite) -> None:
    account, server = new_account(), await system.walletconnect.notify_server()
    (promotions, alerts), relay = site.dapp.types, system.walletconnect.relay
    before = len(relay.published)
    async with (
        asyncio.timeout(PATIENCE),
        system.walletconnect.wallet(account) as watcher,
        system.walletconnect.wallet(account) as other,
    ):
        for wallet in (watcher, other):
            await wallet.register("wallet.dapp.example")
        assert await watcher.watch(server) == []
        subscription = await other.subscribe(site.dapp, [promotions.id])
        [subscribed] = await watcher.change()
        await other.update(subscription, [alerts.id])
        [updated] = await watcher.change()
        await other.delete(subscription, "")
        assert await watcher.change() == []

    assert [each["appDomain"] for each in (subscribed, updated)] == [site.dapp.domain] * 2
    assert [each["scope"] for each in (subscribed, updated)] == [[promotions.id], [alerts.id]]
    assert subscribed["symKey"] == updated["symKey"] == subscription.key.hex()
    # Each answer comes before the news: a wallet that watches as well would not hear it on a topic that is deleted.
    tags = [message.tag for message in relay.published[before:] if message.tag in {4005, 4012, *SENT_BY_SERVER}]
    assert tags == [4001, 4012, 4009, 4012, 4005, 4012]


async def test_a_wallet_that_may_act_for_one_app_is_not_heard_by_another(system: System, site: DappSite) -> None:
    [*_, alerts] = site.dapp.types
    async with asyncio.timeout(PATIENCE), system.walletconnect.wallet(new_account()) as wallet:
        await wallet.register("another.dapp.example", all_apps=False)
        with pytest.raises(WalletRefusal):
            await wallet.subscribe(site.dapp, [alerts.id])

        assert (await site.notify(alerts, wallet))["not_found"] == [wallet.account]


async def test_what_a_wallet_asks_while_ingest_is_away_is_answered_once_it_is_back(
    system: System, site: DappSite
) -> None:
    [promotions, _], relay = site.dapp.types, system.walletconnect.relay
    asked_on = topic_of(site.dapp.keys[SUBSCRIBE_KEY])
    async with asyncio.timeout(PATIENCE), system.walletconnect.wallet(new_account()) as wallet:
        await wallet.register(site.dapp.domain)
        await asyncio.to_thread(system.ingest.close)
        try:
            subscribing = asyncio.create_task(wallet.subscribe(site.dapp, [promotions.id]))
            await relay.until_published(lambda message: message.topic == asked_on)
        finally:
            system.ingest.enter_context(system.ingesting())
        await subscribing

        assert (await site.notify(promotions, wallet))["sent"] == [wallet.account]
        assert (await wallet.message()).content["title"] == "Hello"
