import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from nacl.public import PrivateKey, SealedBox

from local.provider import ReceivedPush
from local.zulip_client import Account, Notice, Phone, ProposedAccount, Release, ShippedAccount
from local.zulip_devices import UNKNOWN_KEY, PushDevice, TokenKind
from local.zulip_server import ZulipServer
from tests.local.zulip_bouncer_answers import Answering, error, success
from tests.standins import NOW, Clock

BOUNCER_KEY = PrivateKey.generate()
PUBLIC_KEY = b64encode(bytes(BOUNCER_KEY.public_key)).decode()
TOKEN = "c0ffee"

both = pytest.mark.parametrize("profile", [ProposedAccount, ShippedAccount])


class Setting:
    """A phone with an account of each of some profiles, in a realm of its own."""

    def __init__(self, clock: Clock, answering: Answering, *, kind: TokenKind = TokenKind.APNS) -> None:
        async def sleep(seconds: float) -> None:
            clock.advance(seconds)

        self.server = ZulipServer("example.org", answering.bouncer(), now=clock, sleep=sleep)
        self.phone = Phone(kind, TOKEN, Release(PUBLIC_KEY, "org.zulip.Zulip"), now=clock, sleep=sleep)

    def account(self, profile: type[Account], user_id: int = 10) -> Account:
        return profile(self.phone, self.server, self.server.add_realm(f"Realm {user_id}"), user_id)

    async def registered(self, profile: type[Account]) -> Account:
        account = self.account(profile)
        await account.register()
        await self.server.until_registered()
        await account.refresh()
        return account


def unsealed(device: PushDevice) -> dict[str, Any]:
    assert device.registration
    sealed = b64decode(device.registration.encrypted_push_registration)
    opened: dict[str, Any] = json.loads(SealedBox(BOUNCER_KEY).decrypt(sealed))
    return opened


def shown(payload: Any) -> ReceivedPush:
    return ReceivedPush(0, 0.0, TOKEN, {}, payload, 200, None, None)


def pushed(device: PushDevice, content: Mapping[str, Any]) -> dict[str, Any]:
    """What the bouncer makes of it for APNs."""
    push = device.push({**content})
    if "payload" in push:
        payload: dict[str, Any] = push["payload"]
        return payload
    return {"push_account_id": int(device.name), "encrypted_content": push["encrypted_content"], "aps": {}}


def test_the_token_is_sealed_for_the_bouncer_as_the_proposal_has_it(clock: Clock) -> None:
    setting = Setting(clock, Answering())
    setting.phone.release = Release(PUBLIC_KEY)
    device = setting.account(ProposedAccount).device()

    assert unsealed(device) == {
        "token_kind": "apns",
        "token": TOKEN,
        "timestamp": datetime.fromtimestamp(NOW, UTC).isoformat(),
    }
    assert device.registration
    assert device.registration.bouncer_public_key == PUBLIC_KEY


@pytest.mark.parametrize(("kind", "app"), [(TokenKind.APNS, {"ios_app_id": "org.zulip.Zulip"}), (TokenKind.FCM, {})])
def test_the_token_is_sealed_for_the_bouncer_as_zulip_12_has_it(
    clock: Clock, kind: TokenKind, app: dict[str, str]
) -> None:
    device = Setting(clock, Answering(), kind=kind).account(ShippedAccount).device()

    assert unsealed(device) == {"token_kind": kind, "token": TOKEN, "timestamp": int(NOW), **app}
    assert device.identity == {"token_id": "+wKIhyAx/Eg="}


@both
async def test_a_registration_is_tried_again_while_the_server_fails(clock: Clock, profile: type[Account]) -> None:
    setting = Setting(clock, Answering(success(device_id="d1")))
    setting.server.failures = 3

    account = await setting.registered(profile)

    assert clock() - NOW == 2 + 4 + 8
    assert account.last_acked_push_token == TOKEN
    assert account.notice is None


@both
async def test_the_app_says_while_notifications_are_not_set_up(clock: Clock, profile: type[Account]) -> None:
    setting = Setting(clock, Answering(success(device_id="d1")))
    account = setting.account(profile)
    await account.register()

    await account.refresh()

    assert account.notice is Notice.NOT_YET
    await setting.server.until_registered()
    await account.refresh()
    assert account.notice is None


@both
async def test_the_app_asks_for_a_newer_release_if_the_bouncer_does_not_know_its_key(
    clock: Clock, profile: type[Account]
) -> None:
    answering = Answering(error(UNKNOWN_KEY))

    account = await Setting(clock, answering).registered(profile)

    assert account.notice is Notice.UPDATE_NEEDED
    assert len(answering.requests) == 1


@both
async def test_whatever_else_the_server_has_forgotten_is_registered_from_scratch(
    clock: Clock, profile: type[Account]
) -> None:
    answering = Answering(error("REQUEST_EXPIRED"), success(device_id="d1"))
    setting = Setting(clock, answering)
    account = setting.account(profile)
    await account.register()
    first = account.name
    await setting.server.until_registered()

    await account.refresh()
    await setting.server.until_registered()

    assert len(answering.requests) == 2
    assert setting.server.statuses(account.realm, 10) == {account.name: "active"}
    assert (account.name == first) == (profile is ShippedAccount)


@both
async def test_a_new_token_is_registered_and_the_server_forgets_the_old(clock: Clock, profile: type[Account]) -> None:
    answering = Answering(success(device_id="d1"), success(device_id="d2"))
    setting = Setting(clock, answering)
    account = await setting.registered(profile)

    await setting.phone.replace_token("facade")
    await setting.server.until_registered()

    assert setting.server.statuses(account.realm, 10) == {account.name: "active"}
    assert account.last_acked_push_token == "facade"
    identities = [
        answering.fields(number).get("token_id") or answering.fields(number)["push_account_id"] for number in (0, 1)
    ]
    assert len(set(identities)) == 2


@both
def test_a_phone_reads_what_is_for_one_of_its_accounts(clock: Clock, profile: type[Account]) -> None:
    setting = Setting(clock, Answering())
    accounts = [setting.account(profile, user_id) for user_id in (10, 11)]

    read = [setting.phone.read(shown(pushed(each.device(), {"type": "test"}))) for each in accounts]

    assert [content["user_id"] for content in read if content] == [10, 11]


@both
def test_a_phone_reads_the_strings_of_fcm(clock: Clock, profile: type[Account]) -> None:
    setting = Setting(clock, Answering(), kind=TokenKind.FCM)
    device = setting.account(profile).device()
    payload = {name: str(value) for name, value in pushed(device, {"type": "test"}).items() if name != "aps"}

    read = setting.phone.read(shown({"message": {"data": payload}}))

    assert read
    assert read["type"] == "test"


@both
def test_a_phone_drops_what_is_not_of_the_accounts_server_or_does_not_decrypt(
    clock: Clock, profile: type[Account]
) -> None:
    setting = Setting(clock, Answering())
    device = setting.account(profile).device()
    payload = pushed(device, {"type": "test"})
    [field] = payload.keys() & {"encrypted_content", "encrypted_data"}
    damaged = b64encode(b64decode(payload[field])[:-1] + b"\0\0").decode()

    assert setting.phone.read(shown(pushed(device, {"type": "test", "realm_url": "https://evil.example"}))) is None
    assert setting.phone.read(shown(payload | {field: damaged})) is None
    assert setting.phone.read(shown(payload | {"push_account_id": 1, "push_key_id": 1})) is None
