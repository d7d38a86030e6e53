"""The scenes of WalletConnect: a dapp, three wallets, and Clarion as the Notify server between them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from clarion.networks import WALLETCONNECT
from local.cast import Cast
from local.command_line import operate
from local.device import Device
from local.provider import ReceivedPush
from local.scenes import QUIET, Outcome, decisions_on, expect
from local.system import COMMAND_QUEUES, PATIENCE, System
from local.walletconnect.account import EthereumAccount
from local.walletconnect.codec import JsonObject
from local.walletconnect.conversation import WalletSubscription
from local.walletconnect.dapp import Dapp, DappBackend, DappNotificationType
from local.walletconnect.network import new_project
from local.walletconnect.wallet import Wallet

COMMANDS = COMMAND_QUEUES[WALLETCONNECT]
SUBSCRIPTIONS = "/v1/walletconnect/subscriptions"


@dataclass(frozen=True)
class DappSite:
    """A dapp, whose backend has a project of its own."""

    system: System
    backend: DappBackend
    dapp: Dapp

    async def notify(
        self, type_: DappNotificationType, *wallets: Wallet, title: str = "Hello", body: str = "for your eyes only"
    ) -> JsonObject:
        """What became of each wallet's account."""
        notification = {"type": type_.id, "title": title, "body": body}
        return await self.backend.notify([wallet.account for wallet in wallets], notification)


@asynccontextmanager
async def dapp_site(system: System, domain: str, *types: str) -> AsyncIterator[DappSite]:
    deployment = system.deployment
    project_id, secret, made = await asyncio.to_thread(new_project, deployment, domain, *types)
    headers = {"Host": deployment.api_host}
    async with httpx.AsyncClient(base_url=deployment.api_url, headers=headers, timeout=PATIENCE) as http:
        backend = DappBackend(http, project_id, secret)
        yield DappSite(system, backend, await system.walletconnect.dapp(backend, domain, made))


@dataclass(frozen=True)
class WalletPhone:
    """It has a wallet, and is reached by APNs."""

    system: System
    device: Device
    token: str

    async def follow(self, subscription: WalletSubscription) -> None:
        rules = [{"topic": subscription.topic, "types": list(subscription.scope)}]
        async with self.system.http_of(self.device) as http:
            registered = await http.post(SUBSCRIPTIONS, json={"notificationType": "apns", "token": self.token})
            registered.raise_for_status()
            body = {"subscription_id": registered.json()["subscription_id"], "rules": rules}
            (await http.put(f"{SUBSCRIPTIONS}/rules", json=body)).raise_for_status()

    async def push(self) -> ReceivedPush:
        """The first that APNs accepts for it, once it is there."""
        journal = self.system.apns.received
        async with asyncio.timeout(PATIENCE):
            while True:
                for push in journal:
                    if push.accepted and push.token == self.token:
                        return push
                await journal.until(journal.count + 1)


async def a_dapp_notifies(system: System, _: Cast) -> Outcome:
    """Alice has subscribed to what is sent, Bob only to something else, and Carol no more to anything."""
    network = system.walletconnect
    async with (
        dapp_site(system, "promotions.dapp.example", "Promotions", "Alerts") as site,
        network.wallet(EthereumAccount("Alice")) as alice,
        network.wallet(EthereumAccount("Bob")) as bob,
        network.wallet(EthereumAccount("Carol")) as carol,
    ):
        promotions, alerts = site.dapp.types
        subscription = await _subscribed(alice, site.dapp, promotions)
        await _subscribed(bob, site.dapp, alerts)
        await carol.delete(await _subscribed(carol, site.dapp, promotions), "too many of them")
        phone = WalletPhone(system, Device("Alice, with a wallet"), "a11ce" + "c0" * 29 + "0")
        await phone.follow(subscription)
        start = time.time()
        answer = await site.notify(promotions, alice, bob, carol)
        expect(_fates(answer), {"sent": 1, "failed": 1, "not_found": 1}, "what became of the three accounts")
        return await _received(system, alice, phone, start)


async def forged_expired_and_replayed(system: System, _: Cast) -> Outcome:
    """What is no request of Alice's, or none any more, changes nothing: she gets the next notification as ever."""
    async with (
        dapp_site(system, "alerts.dapp.example", "Alerts") as site,
        system.walletconnect.wallet(EthereumAccount("Alice")) as alice,
    ):
        [alerts] = site.dapp.types
        first = await _subscribed(alice, site.dapp, alerts)
        phone = WalletPhone(system, Device("Alice, with another wallet"), "a11ce" + "c1" * 29 + "0")
        delete, update = alice.act("delete"), alice.act("update")
        stranger = alice.identity.replaced_key()
        forged = [stranger.request(delete, site.dapp), stranger.request(delete, site.dapp, iss=alice.identity.did)]
        issued = int(time.time()) - 2 * update.ttl
        expired = alice.identity.request(update, site.dapp, scp="", iat=issued, exp=issued + update.ttl)
        replayed = alice.identity.request(update, site.dapp, scp="")
        await alice.submit(update, replayed, first)
        subscription = await alice.update(first, [alerts.id])
        for act, token in (*((delete, each) for each in forged), (update, expired), (update, replayed)):
            await alice.send(act, token, subscription)
        await _until_handled(system)
        await phone.follow(subscription)
        start = time.time()
        expect(_fates(await site.notify(alerts, alice)), {"sent": 1}, "what became of the account")
        return await _received(system, alice, phone, start)


async def _subscribed(wallet: Wallet, dapp: Dapp, *types: DappNotificationType) -> WalletSubscription:
    await wallet.register(dapp.domain)
    return await wallet.subscribe(dapp, [each.id for each in types])


async def _until_handled(system: System) -> None:
    """What wallets have sent so far."""
    async with asyncio.timeout(PATIENCE):
        while system.walletconnect.relay.unacknowledged or COMMANDS in await asyncio.to_thread(system.messages):  # noqa: ASYNC110 - other processes handle it
            await asyncio.sleep(QUIET)


async def _received(system: System, wallet: Wallet, phone: WalletPhone, start: float) -> Outcome:
    """The message reaches the wallet by the relay and by a push, and the operator is told that the wallet has it."""
    message = await wallet.message()
    expect(message.content["body"], "for your eyes only", "the message from the relay")
    push = await phone.push()
    opened = wallet.opened(push.payload["topic"], push.payload["message"])
    expect(opened["method"], "wc_notifyMessage", "what is in the push")
    envelope_id = push.headers["apns-collapse-id"]
    decisions = await decisions_on(system, {envelope_id}, pushes=2)
    expect(decisions, Counter(matched=1, queued=1, delivered=1, received=1), "decisions")
    why = await asyncio.to_thread(operate, system.deployment.emulator, "why", "--envelope", envelope_id)
    expect("received" in _steps(why), True, "`clarion why` says that the wallet has it")
    return Outcome(decisions, [push], push.at - start)


def _fates(answer: JsonObject) -> dict[str, int]:
    return {fate: len(accounts) for fate, accounts in answer.items() if accounts}


def _steps(why: JsonObject) -> set[Any]:
    return {step["what"] for trace in why["traces"] for step in trace["steps"]}
