"""Zulip through the deployed stack: self-hosted servers in front, phones behind, and what each of them learns."""

import asyncio
import json
import re
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest
import pytest_asyncio
from nacl.public import PrivateKey

from local.apns_trouble import troubled_token
from local.interruptions import Interruption
from local.outside import BUNDLE_ID
from local.provider import InjectedFault
from local.run import guide
from local.scenes import QUIET, shown_by_phones
from local.system import PATIENCE, System
from local.zulip_bouncer import Bouncer, BouncerRefusalError, BouncerUnavailableError
from local.zulip_client import Account, Notice, Phone, ProposedAccount, Release, ShippedAccount
from local.zulip_devices import DeviceStatus, LegacyToken, TokenKind, ZulipRealm
from local.zulip_server import LIVENESS_TIMEOUT_S
from local.zulip_story import SelfHosted, operate, pushes_to, self_hosted, until_removed

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

both = pytest.mark.parametrize("profile", [ProposedAccount, ShippedAccount])


@pytest_asyncio.fixture(loop_scope="session")
async def site(system: System) -> AsyncIterator[SelfHosted]:
    """A server of the test's own with one realm, which has joined."""
    async with self_hosted(system, f"{uuid4().hex[:8]}.example.org") as site:
        site.server.add_realm("Engineering")
        await site.server.join()
        yield site


@pytest.fixture
def realm(site: SelfHosted) -> ZulipRealm:
    [realm] = site.server.realms
    return realm


def phone_of(site: SelfHosted, token: str, kind: TokenKind = TokenKind.APNS) -> Phone:
    return Phone(kind, token, site.release)


@both
@pytest.mark.parametrize(("kind", "token"), [(TokenKind.APNS, "3d" * 32), (TokenKind.FCM, "zulip-" + "Z" * 140)])
async def test_what_a_server_sends_is_read_by_the_phone_alone(
    system: System, site: SelfHosted, realm: ZulipRealm, profile: type[Account], kind: TokenKind, token: str
) -> None:
    phone = phone_of(site, token[:-1] + str(len(profile.__name__) % 10), kind)
    account = await site.register(profile, realm, phone)
    assert site.server.statuses(realm, account.user_id) == {account.name: DeviceStatus.ACTIVE}

    queued = await site.server.notify(realm, {"type": "message", "content": "for your eyes only"})
    [push] = await pushes_to(system, phone)

    assert queued == 1
    content = phone.read(push)
    assert content
    assert content["content"] == "for your eyes only"
    assert "eyes" not in json.dumps(push.payload)


async def test_a_server_of_zulip_12_decides_how_it_is_pushed(
    system: System, site: SelfHosted, realm: ZulipRealm
) -> None:
    iphone, android = phone_of(site, "3e" * 32), phone_of(site, "zulip-" + "Y" * 140, TokenKind.FCM)
    await site.register(ShippedAccount, realm, iphone)
    await site.register(ShippedAccount, realm, android)

    await site.server.notify(realm, {"type": "message"})
    await site.server.notify(realm, {"type": "remove", "message_ids": [31]})

    alert, removal = sorted(
        await pushes_to(system, iphone, 2), key=lambda push: "alert" in push.payload["aps"], reverse=True
    )
    assert (alert.headers["apns-push-type"], alert.headers["apns-priority"]) == ("alert", "10")
    assert (removal.headers["apns-push-type"], removal.headers["apns-priority"]) == ("background", "5")
    assert alert.headers["apns-topic"] == BUNDLE_ID
    assert alert.payload["aps"] == {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}
    assert removal.payload["aps"] == {"mutable-content": 1}
    priorities = {push.payload["message"]["android"]["priority"] for push in await pushes_to(system, android, 2)}
    assert {priority.lower() for priority in priorities} == {"high", "normal"}


@both
async def test_two_accounts_on_one_phone_are_told_apart_by_their_keys(
    system: System, site: SelfHosted, realm: ZulipRealm, profile: type[Account]
) -> None:
    another = site.server.add_realm("Research")
    await site.server.report_realms()
    phone = phone_of(site, f"a7{len(profile.__name__):02}" * 16)
    await site.register(profile, realm, phone, user_id=10)
    await site.register(profile, another, phone, user_id=11)

    for each in (realm, another):
        await site.server.notify(each, {"type": "test"})

    read = [phone.read(push) for push in await pushes_to(system, phone, 2)]
    assert sorted(content["user_id"] for content in read if content) == [10, 11]
    assert len(await asyncio.to_thread(site.devices)) == 2


@both
@pytest.mark.parametrize(
    "interruptions", [[Interruption.UNREACHABLE, Interruption.SERVER_ERROR], [Interruption.ANSWER_LOST] * 2]
)
async def test_an_outage_during_a_registration_ends_in_one_device(
    site: SelfHosted, realm: ZulipRealm, profile: type[Account], interruptions: list[Interruption]
) -> None:
    site.way.interruptions.extend(interruptions)

    account = await site.register(profile, realm, phone_of(site, "3f" * 32))

    assert site.server.statuses(realm, account.user_id) == {account.name: DeviceStatus.ACTIVE}
    assert len(await asyncio.to_thread(site.devices)) == 1


async def test_a_push_that_is_sent_again_replaces_itself(system: System, site: SelfHosted, realm: ZulipRealm) -> None:
    """The answer to notify is lost, and the server sends the same bytes once more."""
    phone = phone_of(site, "a9" * 32)
    account = await site.register(ShippedAccount, realm, phone)
    [device] = site.server.devices.values()
    pushes = {"push_requests": [device.push({"type": "test"})]}

    answers = [await site.server.bouncer.notify(realm.uuid, pushes) for _ in range(2)]

    assert answers[0]["apple_successfully_sent_count"] == 1
    await pushes_to(system, phone)
    await asyncio.sleep(QUIET)
    received = [push for push in system.apns.received if push.token == phone.token]
    assert len({push.push_id for push in received}) == 1
    assert len(shown_by_phones(received)) == 1
    assert account.notice is None


@both
async def test_a_dead_token_is_reported_by_the_query_for_the_expired(
    system: System, site: SelfHosted, realm: ZulipRealm, profile: type[Account]
) -> None:
    phone = phone_of(site, troubled_token(InjectedFault("Unregistered"), 0xAA00 + len(profile.__name__)))
    account = await site.register(profile, realm, phone)
    await site.server.notify(realm, {"type": "test"})

    await until_removed(site.server, account)

    assert site.server.events[-1].status is DeviceStatus.REMOVED


@both
async def test_a_dead_token_is_reported_by_the_next_push(
    system: System, site: SelfHosted, realm: ZulipRealm, profile: type[Account]
) -> None:
    phone = phone_of(site, troubled_token(InjectedFault("Unregistered"), 0xAB00 + len(profile.__name__)))
    account = await site.register(profile, realm, phone)

    async with asyncio.timeout(PATIENCE):
        while site.server.statuses(realm, account.user_id):
            await site.server.notify(realm, {"type": "test"})
            await asyncio.sleep(QUIET)

    assert site.server.events[-1].status is DeviceStatus.REMOVED


@both
async def test_a_token_that_is_registered_after_its_end_is_pushed_to_again(
    system: System, site: SelfHosted, realm: ZulipRealm, profile: type[Account]
) -> None:
    trouble = InjectedFault("Unregistered", times=1)
    phone = phone_of(site, troubled_token(trouble, 0xAC00 + len(profile.__name__)))
    account = await site.register(profile, realm, phone)
    await site.server.notify(realm, {"type": "test"})
    await until_removed(site.server, account)
    # A registration has its time in whole seconds, and has to be later than the end.
    await asyncio.sleep(1)

    await account.refresh()
    await site.server.until_registered()
    await site.server.notify(realm, {"type": "test"})

    [push] = await pushes_to(system, phone)
    assert phone.read(push)


@both
async def test_an_app_whose_key_the_bouncer_does_not_know_has_to_be_updated(
    site: SelfHosted, realm: ZulipRealm, profile: type[Account]
) -> None:
    stranger = b64encode(bytes(PrivateKey.generate().public_key)).decode()
    phone = Phone(TokenKind.APNS, "ad" * 32, Release(stranger, BUNDLE_ID))
    account = await site.register(profile, realm, phone)

    await account.refresh()

    assert account.notice is Notice.UPDATE_NEEDED
    phone.release = site.release
    await account.start_afresh()
    await site.server.until_registered()
    await account.refresh()
    assert account.notice is None


@both
async def test_a_registration_that_took_more_than_a_day_is_the_administrators_affair(
    site: SelfHosted, realm: ZulipRealm, profile: type[Account]
) -> None:
    phone = phone_of(site, "ae" * 32)
    phone.now = lambda: time.time() - LIVENESS_TIMEOUT_S - 60
    account = await site.register(profile, realm, phone)

    assert len(site.server.mails) == 1
    assert site.server.statuses(realm, account.user_id).get(account.name) is not DeviceStatus.ACTIVE
    assert not await asyncio.to_thread(site.devices)


async def test_a_realm_is_served_once_its_server_has_reported_it(site: SelfHosted) -> None:
    realm = site.server.add_realm("Research")
    account = ProposedAccount(phone_of(site, "af" * 32), site.server, realm, 12)
    await account.register()
    await asyncio.sleep(QUIET)
    assert site.server.statuses(realm, 12) == {account.name: DeviceStatus.PENDING}

    await site.server.report_realms()
    await site.server.until_registered()

    assert site.server.statuses(realm, 12) == {account.name: DeviceStatus.ACTIVE}


async def test_a_server_does_not_speak_for_anothers_realm(system: System, site: SelfHosted, realm: ZulipRealm) -> None:
    async with self_hosted(system, f"{uuid4().hex[:8]}.example.org") as other:
        await other.server.join()

        with pytest.raises(BouncerRefusalError) as refusal:
            await other.server.bouncer.notify(realm.uuid, {"push_requests": []})

    assert refusal.value.code == "REMOTE_REALM_SERVER_MISMATCH_ERROR"


async def test_a_realm_is_refused_until_its_server_has_joined(system: System) -> None:
    async with self_hosted(system, f"{uuid4().hex[:8]}.example.org") as site:
        realm = site.server.add_realm("Engineering")
        with pytest.raises(BouncerUnavailableError, match="MISSING_REMOTE_REALM"):
            await site.server.bouncer.notify(realm.uuid, {"push_requests": []})

        assert not await site.server.join(), "the operator had added it"

        assert await site.server.notify(realm, {"type": "test"}) == 0


async def test_a_server_may_replace_its_key_and_leave(site: SelfHosted, realm: ZulipRealm) -> None:
    bouncer = site.server.bouncer

    await site.server.rotate_key()
    await site.server.report_realms()
    await bouncer.deactivate_server()

    with pytest.raises(BouncerRefusalError) as refusal:
        await site.server.join()
    assert refusal.value.code == "REALM_DEACTIVATED"


@pytest.mark.parametrize("field", ["encrypted_data", "push_key_id"])
async def test_a_malformed_push_spoils_its_whole_request(
    system: System, site: SelfHosted, realm: ZulipRealm, field: str
) -> None:
    phone = phone_of(site, f"b0{len(field):02}" * 16)
    await site.register(ShippedAccount, realm, phone)
    [device] = site.server.devices.values()
    good, bad = (device.push({"type": "test"}) for _ in range(2))
    del bad["payload"][field]

    with pytest.raises(BouncerRefusalError, match="1") as refusal:
        await site.server.bouncer.notify(realm.uuid, {"push_requests": [good, bad]})

    assert refusal.value.code
    await asyncio.sleep(QUIET)
    assert phone.token not in {push.token for push in system.apns.received}


async def test_a_user_whose_old_app_does_not_encrypt_gets_the_encrypted_pushes_of_the_new_one(
    system: System, site: SelfHosted, realm: ZulipRealm
) -> None:
    phone = phone_of(site, "b4" * 32)
    await site.register(ShippedAccount, realm, phone)
    site.server.legacy_tokens.add(LegacyToken(realm, TokenKind.APNS, "b5" * 32))

    assert await site.server.notify(realm, {"type": "message", "content": "for your eyes only"}) == 1

    [push] = await pushes_to(system, phone)
    assert phone.read(push)
    assert not site.server.legacy_tokens


@pytest.mark.parametrize("route", ["register", "unregister", "test_notification"])
async def test_the_unencrypted_protocol_is_not_offered(site: SelfHosted, route: str) -> None:
    with pytest.raises(BouncerRefusalError) as refusal:
        await site.server.bouncer.call("POST", f"push/{route}", json={})

    assert refusal.value.code


async def test_no_server_gets_anothers_registration_by_its_host_name(site: SelfHosted) -> None:
    wanted = {"hostname": site.server.hostname}
    with pytest.raises(BouncerRefusalError) as refusal:
        await site.server.bouncer.call("POST", "server/register/transfer", signed_in=False, data=wanted)

    assert refusal.value.code


async def test_what_make_run_prints_lets_a_server_in(system: System) -> None:
    printed = guide(system)
    [(org_id, org_key)] = re.findall(r"ZULIP_ORG_ID=(\S+) ZULIP_ORG_KEY=(\S+)", printed)
    [key_hash] = re.findall(r"--key-hash (\S+)", printed)

    await asyncio.to_thread(operate, system, "server", "add", org_id, "--key-hash", key_hash)

    deployment = system.deployment
    async with httpx.AsyncClient(base_url=deployment.api_url, headers={"Host": deployment.api_host}) as http:
        status = await Bouncer(http, UUID(org_id), org_key).call("GET", "server/analytics/status")
    assert status["last_realm_count_id"] == 0
    assert system.bouncer_public_key in printed


async def test_an_operator_lets_a_server_in(system: System) -> None:
    async with self_hosted(system, "invited.example.org") as site:
        await asyncio.to_thread(operate, system, "server", "add", str(site.org_id), "--devices", "1")
        realm = site.server.add_realm("Engineering")
        await site.server.join()
        await site.register(ShippedAccount, realm, phone_of(site, "b2" * 32))

        [device] = await asyncio.to_thread(site.devices)
        second = ShippedAccount(phone_of(site, "b3" * 32), site.server, realm, 10)
        await second.register()

        with pytest.raises(BouncerUnavailableError):
            await site.server.bouncer.register_device(site.server.devices[second.name].request)
        # Its server goes on trying.
        assert site.server.statuses(realm, second.user_id)[second.name] is DeviceStatus.PENDING
        assert await asyncio.to_thread(site.devices) == [device]
