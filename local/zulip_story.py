"""The scenes of Zulip: a self-hosted server, its users' phones, and Clarion as the bouncer between it and them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID, uuid4

import httpx

from clarion.clock import now_ms
from clarion.networks import ZULIP
from local import command_line
from local.apns_trouble import troubled_token
from local.cast import Cast
from local.interruptions import InterruptedTransport, Interruption
from local.outside import BUNDLE_ID
from local.provider import InjectedFault, ReceivedPush
from local.scenes import QUIET, Outcome, Unexpected, expect, shown_by_phones
from local.system import PATIENCE, System
from local.zulip_bouncer import Bouncer, JsonObject
from local.zulip_client import Account, Phone, ProposedAccount, Release, ShippedAccount
from local.zulip_devices import DeviceStatus, TokenKind, ZulipRealm
from local.zulip_server import ZulipServer, new_org_key

_RETRY_S = 0.2


@dataclass(frozen=True)
class SelfHosted:
    """A server that Clarion's operator has added, and the way between the two."""

    system: System
    org_id: UUID
    way: InterruptedTransport
    server: ZulipServer

    @property
    def release(self) -> Release:
        """The app's newest."""
        return Release(self.system.bouncer_public_key, BUNDLE_ID)

    async def register(self, profile: type[Account], realm: ZulipRealm, phone: Phone, user_id: int = 10) -> Account:
        account = profile(phone, self.server, realm, user_id)
        await account.register()
        await self.server.until_registered()
        return account

    def devices(self) -> list[str]:
        """The ids of those that Clarion has of this server."""
        found = self.system.client("dynamodb").query(
            TableName=f"{self.system.deployment.outputs.table_prefix}subscriptions",
            IndexName="by_client",
            KeyConditionExpression="client_id = :server",
            ExpressionAttributeValues={":server": {"B": self.org_id.bytes}},
        )
        return [each["subscription_id"]["S"] for each in found["Items"]]


@asynccontextmanager
async def self_hosted(system: System, hostname: str) -> AsyncIterator[SelfHosted]:
    """One that has not joined yet. It tries again sooner than servers do."""
    org_id, org_key, deployment = uuid4(), new_org_key(), system.deployment
    await asyncio.to_thread(_add, system, org_id, org_key)
    way = InterruptedTransport(httpx.AsyncHTTPTransport())
    async with (
        httpx.AsyncClient(
            base_url=deployment.api_url, headers={"Host": deployment.api_host}, timeout=PATIENCE, transport=way
        ) as http,
        ZulipServer(hostname, Bouncer(http, org_id, org_key), sleep=_soon) as server,
    ):
        yield SelfHosted(system, org_id, way, server)


def _add(system: System, org_id: UUID, org_key: str) -> None:
    """As `clarion zulip server add` does, which takes longer to start."""
    row = {
        "server_uuid": {"S": str(org_id)},
        "key_hash": {"B": sha256(org_key.encode()).digest()},
        "state": {"S": "active"},
        "created_at": {"N": str(now_ms())},
    }
    table = f"{system.deployment.outputs.table_prefix}zulip_servers"
    system.client("dynamodb").put_item(TableName=table, Item=row)


async def _soon(_: float) -> None:
    await asyncio.sleep(_RETRY_S)


async def two_realms(system: System, _: Cast) -> Outcome:
    """An iPhone as the proposal has it, and an Android phone as Zulip 12 does."""
    async with self_hosted(system, "zulip.example.org") as site:
        server, release = site.server, site.release
        engineering, research = server.add_realm("Engineering"), server.add_realm("Research")
        await server.join()
        iphone = Phone(TokenKind.APNS, "21" * 32, release)
        android = Phone(TokenKind.FCM, "zulip-" + "F" * 140, release)
        await site.register(ProposedAccount, engineering, iphone)
        await site.register(ShippedAccount, research, android)
        outcome = await _notified(system, server, (engineering, iphone), (research, android))
    expect(outcome.decisions, Counter({"delivered": 2}), "decisions")
    return outcome


async def a_dead_token(system: System, _: Cast) -> Outcome:
    """APNs says that the app is gone: the server hears of it by its cron job, and the app comes back with a new token."""
    gone = InjectedFault("Unregistered", ago=0)
    async with self_hosted(system, "dead.zulip.example.org") as site:
        server = site.server
        realm = server.add_realm("Engineering")
        await server.join()
        phone = Phone(TokenKind.APNS, troubled_token(gone, 0x21), site.release)
        account = await site.register(ProposedAccount, realm, phone)
        await server.notify(realm, {"type": "test"})
        await until_removed(server, account)
        await phone.replace_token("22" * 32)
        await server.until_registered()
        outcome = await _notified(system, server, (realm, phone))
    expect(outcome.decisions, Counter({"delivered": 1}), "decisions of the new token")
    return outcome


async def a_new_bouncer_key(system: System, _: Cast) -> Outcome:
    """Both are good: the bouncer reads its keys again for one that it does not know."""
    async with self_hosted(system, "keys.zulip.example.org") as site:
        server = site.server
        realms = [server.add_realm(name) for name in ("Engineering", "Research")]
        await server.join()
        releases = [site.release, await _next_release(system)]
        phones = [Phone(TokenKind.APNS, f"2{number}" * 32, release) for number, release in enumerate(releases, 4)]
        for realm, phone in zip(realms, phones, strict=True):
            await site.register(ShippedAccount, realm, phone)
        outcome = await _notified(system, server, *zip(realms, phones, strict=True))
    expect(outcome.decisions, Counter({"delivered": 2}), "decisions")
    return outcome


async def _next_release(system: System) -> Release:
    """With a key that the operator has just made."""
    printed = await asyncio.to_thread(operate, system, "rotate-key", "--yes")
    return Release(printed["made"], BUNDLE_ID)


def operate(system: System, *words: str) -> JsonObject:
    """What `clarion zulip …` prints."""
    return dict(command_line.operate(system.deployment.emulator, "zulip", *words))


async def an_outage(system: System, _: Cast) -> Outcome:
    """The bouncer is away, fails, and then answers into the void: the server tries again with the same registration."""
    async with self_hosted(system, "far.zulip.example.org") as site:
        server = site.server
        realm = server.add_realm("Engineering")
        await server.join()
        phone = Phone(TokenKind.APNS, "23" * 32, site.release)
        site.way.interruptions.extend(
            [Interruption.UNREACHABLE, Interruption.SERVER_ERROR, Interruption.ANSWER_LOST, Interruption.ANSWER_LOST]
        )
        account = await site.register(ProposedAccount, realm, phone)
        expect(server.statuses(realm, account.user_id), {account.name: DeviceStatus.ACTIVE}, "devices at the server")
        expect(len(await asyncio.to_thread(site.devices)), 1, "devices at the bouncer")
        return await _notified(system, server, (realm, phone))


async def until_removed(server: ZulipServer, account: Account) -> None:
    """Run the cron job until the account is no longer there."""
    async with asyncio.timeout(PATIENCE):
        while server.statuses(account.realm, account.user_id):
            await server.remove_expired()
            await asyncio.sleep(QUIET)


async def pushes_to(system: System, phone: Phone, count: int = 1) -> list[ReceivedPush]:
    """Those that its provider has accepted, once there are so many, each in its last form."""
    journal = (system.apns if phone.kind is TokenKind.APNS else system.fcm).received
    async with asyncio.timeout(PATIENCE):
        while len(found := shown_by_phones(push for push in journal if push.token == phone.token)) < count:
            await journal.until(journal.count + 1)
    return found


async def _notified(system: System, server: ZulipServer, *phones: tuple[ZulipRealm, Phone]) -> Outcome:
    """Send a message to each realm, of whose one user this is the phone, and see that nobody else could read it."""
    start, shown = time.time(), []
    for realm, phone in phones:
        expect(await server.notify(realm, {"type": "message", "content": "for your eyes only"}), 1, "pushes queued")
        [push] = await pushes_to(system, phone)
        content = phone.read(push)
        expect(content and content["content"], "for your eyes only", "the message as the phone reads it")
        shown.append(push)
    decisions = await _decisions(system, start, len(phones))
    return Outcome(decisions, shown, min(push.at for push in shown) - start)


async def _decisions(system: System, start: float, pushes: int) -> Counter[str]:
    """On the pushes since `start`, once the lake has so many."""
    async for events in system.lake.growing(PATIENCE):
        mine = [each for each in events if each["event"] == "push" and each["network"] == ZULIP]
        decisions = Counter(each["decision"] for each in mine if each["at"] >= start * 1000)
        if decisions.total() >= pushes:
            return decisions
    raise Unexpected(f"the lake has fewer than {pushes} pushes")
