"""The client that wallets have, and the simulated wallet, against a Notify server that believes all they say."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest

from local import tls
from local.walletconnect.account import EthereumAccount
from local.walletconnect.acts import Generation
from local.walletconnect.client import NotifyClient, NotifyClientError, notify_client
from local.walletconnect.codec import sign
from local.walletconnect.dapp import DappNotificationType
from local.walletconnect.hosts import HOSTS, PublicHosts
from local.walletconnect.identity import UnexpectedClaims, message_hash
from local.walletconnect.keys import KeyServer
from local.walletconnect.relay import Relay
from local.walletconnect.wallet import Surroundings, Wallet
from tests.local.walletconnect_server import TrustingNotifyServer

PROMOTIONS, ALERTS = DappNotificationType("Promotions"), DappNotificationType("Alerts")
ALICE = EthereumAccount("Alice")


@dataclass(frozen=True)
class Site:
    localhost: tls.Localhost
    relay: Relay
    keys: KeyServer
    hosts: PublicHosts
    server: TrustingNotifyServer

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(self.relay.url, self.keys.url, self.localhost.client_context())


@pytest.fixture(scope="module")
def named_localhost(tmp_path_factory: pytest.TempPathFactory) -> tls.Localhost:
    return tls.issue(tmp_path_factory.mktemp("tls"), *HOSTS)


@asynccontextmanager
async def site_on(localhost: tls.Localhost) -> AsyncIterator[Site]:
    server = TrustingNotifyServer(PROMOTIONS, ALERTS)
    async with (
        asyncio.timeout(60),
        Relay(localhost) as relay,
        KeyServer(localhost) as keys,
        PublicHosts(localhost) as hosts,
        server.on(relay.url, localhost),
    ):
        hosts.add(server.dapp)
        hosts.notify_server = server.show_did
        yield Site(localhost, relay, keys, hosts, server)


@asynccontextmanager
async def client_on(localhost: tls.Localhost) -> AsyncIterator[tuple[Site, NotifyClient]]:
    async with (
        site_on(localhost) as site,
        notify_client(site.relay.url, site.keys.url, site.hosts.port, localhost) as client,
    ):
        yield site, client


async def test_the_client_registers_subscribes_is_notified_updates_and_deletes(
    named_localhost: tls.Localhost,
) -> None:
    async with client_on(named_localhost) as (site, client):
        await play(site.server, client)

    assert [name for name, _ in client.transcript if name in {"register", "subscribe", "deleteSubscription"}] == [
        "register",
        "subscribe",
        "deleteSubscription",
    ]


async def play(server: TrustingNotifyServer, client: NotifyClient) -> None:
    domain = server.dapp.domain
    await client.register(ALICE, domain)
    assert (await client.event("notify_subscriptions_changed"))["subscriptions"] == []
    assert await client.call("subscribe", account=ALICE.caip10, appDomain=domain) is True
    [topic] = await client.call("getActiveSubscriptions", account=ALICE.caip10)
    await server.notify(PROMOTIONS.id, "Hello ✓")
    assert (await client.event("notify_message"))["message"]["title"] == "Hello ✓"
    assert (await server.receipts.get())["act"] == "notify_message_response"
    assert await client.call("update", topic=topic, scope=[ALERTS.id]) is True
    types = await client.call("getNotificationTypes", appDomain=domain)
    assert {name: each["enabled"] for name, each in types.items()} == {PROMOTIONS.id: False, ALERTS.id: True}
    [notification] = (await client.call("getNotificationHistory", topic=topic))["notifications"]
    await client.call("markNotificationsAsRead", topic=topic, notificationIds=[notification["id"]])
    [read] = (await client.call("getNotificationHistory", topic=topic))["notifications"]
    assert (notification["isRead"], read["isRead"]) == (False, True)
    await client.call("deleteSubscription", topic=topic)
    assert await client.call("getActiveSubscriptions", account=ALICE.caip10) == {}


async def test_what_the_client_cannot_do_is_an_error_with_its_reason(named_localhost: tls.Localhost) -> None:
    async with client_on(named_localhost) as (site, client):
        with pytest.raises(NotifyClientError, match="not registered"):
            await client.call("subscribe", account=ALICE.caip10, appDomain=site.server.dapp.domain)


async def test_a_shipped_wallet_does_the_same(named_localhost: tls.Localhost) -> None:
    async with site_on(named_localhost) as site, Wallet(ALICE, site.surroundings) as wallet:
        server = site.server
        await wallet.register(server.dapp.domain)
        assert await wallet.watch(server.server) == []
        subscription = await wallet.subscribe(server.dapp, [PROMOTIONS.id])
        [change] = await wallet.change()
        assert (change["appDomain"], change["scope"]) == (server.dapp.domain, [PROMOTIONS.id])
        assert (await server.receipts.get())["act"] == "notify_subscriptions_changed_response"
        await server.notify(PROMOTIONS.id, "Hello ✓")
        message = await wallet.message()
        assert (message.topic, message.content["title"]) == (subscription.topic, "Hello ✓")
        assert (await server.receipts.get())["sub"] == f"did:pkh:{ALICE.caip10}"
        updated = await wallet.update(subscription, [ALERTS.id])
        await wallet.mark_as_read(updated)
        assert [each["is_read"] for each in (await wallet.history(updated, 5))["nfs"]] == [True]
        await wallet.delete(updated, "too many of them")

    assert [claims["sub"] for claims in server.deletions] == [f"did:pkh:{ALICE.caip10}"]


async def test_a_wallet_as_the_document_has_it_names_hashes_and_a_reason(named_localhost: tls.Localhost) -> None:
    async with site_on(named_localhost) as site, Wallet(ALICE, site.surroundings, Generation.DOCUMENT) as wallet:
        server = site.server
        subscription = await wallet.subscribe(server.dapp, [PROMOTIONS.id])
        await server.notify(PROMOTIONS.id, "Hello ✓")
        message = await wallet.message()
        assert message.claims["sub"] == subscription.hash
        receipt = await server.receipts.get()
        assert (receipt["act"], receipt["sub"]) == ("notify_receipt", message_hash(message.content))
        updated = await wallet.update(subscription, [ALERTS.id])
        assert updated.hash != subscription.hash
        await wallet.delete(updated, "too many of them")

    assert [claims["sub"] for claims in server.deletions] == ["too many of them"]


async def test_a_wallet_does_not_take_what_it_has_signed_itself_or_somebody_else_has(
    named_localhost: tls.Localhost,
) -> None:
    async with site_on(named_localhost) as site, Wallet(ALICE, site.surroundings) as wallet:
        token = wallet.identity.request(wallet.act("update"), site.server.dapp)
        with pytest.raises(UnexpectedClaims, match="notify_message"):
            wallet.identity.message(token, site.server.dapp)
        with pytest.raises(UnexpectedClaims, match="notify_message"):
            wallet.identity.message(token[:-8], site.server.dapp)


async def test_an_account_registers_only_with_its_own_signature_and_until_it_takes_it_back(
    named_localhost: tls.Localhost,
) -> None:
    mallory = EthereumAccount("Mallory")
    async with (
        site_on(named_localhost) as site,
        Wallet(ALICE, site.surroundings) as wallet,
        httpx.AsyncClient(base_url=site.keys.url, verify=site.surroundings.context, trust_env=False) as http,
    ):
        cacao = dict(wallet.identity.cacao("app.dapp.example", all_apps=True))
        forged = {**cacao, "s": {"t": "eip191", "s": mallory.sign("anything else")}}
        statuses = [(await http.post("/identity", json={"cacao": each})).status_code for each in (forged, cacao)]
        asked = {"publicKey": wallet.identity.did.removeprefix("did:key:")}
        found = await http.get("/identity", params=asked)
        removal = sign(
            {"iss": wallet.identity.did, "act": "unregister_identity", "aud": site.keys.url}, wallet.identity.key
        )
        removed = await http.request("DELETE", "/identity", json={"idAuth": removal})
        gone = await http.get("/identity", params=asked)

    assert statuses == [401, 200]
    assert found.json()["value"] == {"cacao": cacao}
    assert (removed.status_code, gone.status_code, gone.json()["status"]) == (200, 404, "FAILURE")
