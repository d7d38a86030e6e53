import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from nacl.public import PrivateKey, SealedBox
from nacl.secret import SecretBox

from local.zulip_bouncer import BouncerRefusalError
from local.zulip_devices import (
    EXPIRED,
    UNKNOWN_KEY,
    AccountDevice,
    DeviceStatus,
    KeyedDevice,
    LegacyToken,
    PushDevice,
    SealedRegistration,
    TokenKind,
    ZulipRealm,
)
from local.zulip_server import BATCH, LIVENESS_TIMEOUT_S, ServerError, ZulipServer, backoff
from tests.local.zulip_bouncer_answers import Answering, error, success
from tests.standins import Clock

PRIVATE_KEY = PrivateKey.generate()
KEY = bytes(range(32))
NOTIFIED = success(
    apple_successfully_sent_count=1,
    android_successfully_sent_count=0,
    realm_push_status={"can_push": True, "expected_end_timestamp": None},
    delete_token_ids=[],
    errors=[],
)

type DeviceOf = Callable[[ZulipRealm], PushDevice]


def server_before(answering: Answering, clock: Clock) -> ZulipServer:
    async def sleep(seconds: float) -> None:
        clock.advance(seconds)

    return ZulipServer("example.org", answering.bouncer(), now=clock, sleep=sleep)


def account_device(realm: ZulipRealm, number: int = 1) -> AccountDevice:
    return AccountDevice(
        realm=realm,
        user_id=10,
        token_kind=TokenKind.APNS,
        registration=SealedRegistration("c2VhbGVk", "a2V5"),
        push_account_id=-number,
        push_public_key=bytes(PRIVATE_KEY.public_key),
    )


def keyed_device(realm: ZulipRealm, kind: TokenKind = TokenKind.APNS) -> KeyedDevice:
    return KeyedDevice(
        realm=realm,
        user_id=10,
        token_kind=kind,
        registration=SealedRegistration("c2VhbGVk", "a2V5"),
        device_id=3,
        push_key_id=2408,
        push_key=b64encode(b"\x31" + KEY).decode(),
        token_id="+wKIhyAx/Eg=",
    )


both = pytest.mark.parametrize("device_of", [account_device, keyed_device])


async def registered(server: ZulipServer, device_of: DeviceOf) -> PushDevice:
    realm = server.add_realm("Engineering")
    device = device_of(realm)
    server.register(device)
    await server.until_registered()
    return device


@both
async def test_a_device_is_pending_until_the_bouncer_has_it(clock: Clock, device_of: DeviceOf) -> None:
    server = server_before(Answering(success(device_id="d1")), clock)
    realm = server.add_realm("Engineering")
    device = device_of(realm)

    server.register(device)
    before = server.statuses(realm, 10)
    await server.until_registered()

    assert before == {device.name: "pending"}
    assert server.statuses(realm, 10) == {device.name: "active"}
    assert [event.status for event in server.events] == ["pending", "active"]
    assert device.registration is None


async def test_the_two_generations_name_a_device_differently_to_the_bouncer(clock: Clock) -> None:
    answering = Answering(success(device_id="d1"), success())
    server = server_before(answering, clock)

    device = await registered(server, account_device)
    sealed = {"encrypted_push_registration": "c2VhbGVk", "bouncer_public_key": "a2V5"}

    assert answering.fields() == {"realm_uuid": str(device.realm.uuid), "push_account_id": "-1", **sealed}
    assert device.address == "d1"

    device = await registered(server, keyed_device)

    assert answering.fields() == {"realm_uuid": str(device.realm.uuid), "token_id": "+wKIhyAx/Eg=", **sealed}
    assert answering.routes == ["push/e2ee/register"] * 2


@pytest.mark.parametrize("trouble", [httpx.ConnectError("no"), httpx.ReadTimeout("no"), error("", 500)])
async def test_a_registration_is_tried_again_while_the_bouncer_is_away(clock: Clock, trouble: Any) -> None:
    answering, start = Answering(*[trouble] * 9, otherwise=success(device_id="d1")), clock()
    server = server_before(answering, clock)

    device = await registered(server, account_device)

    assert device.status is DeviceStatus.ACTIVE
    assert clock() - start == 2 + 4 + 8 + 16 + 32 + 64 + 90 * 3
    assert len({request.content for request in answering.requests}) == 1


async def test_it_is_given_up_after_a_day_and_the_administrator_gets_a_mail(clock: Clock) -> None:
    server, start = server_before(Answering(otherwise=error("", 502)), clock), clock()

    device = await registered(server, account_device)

    assert LIVENESS_TIMEOUT_S < clock() - start <= LIVENESS_TIMEOUT_S + max(next(backoff()), 90)
    assert server.statuses(device.realm, 10) == {}
    assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("code", "reason", "mails"),
    [(UNKNOWN_KEY, "invalid bouncer_public_key", 0), (EXPIRED, None, 1), ("BAD_REQUEST", None, 0)],
)
async def test_a_refused_account_is_forgotten_at_once(clock: Clock, code: str, reason: str | None, mails: int) -> None:
    answering = Answering(error(code))
    server = server_before(answering, clock)

    device = await registered(server, account_device)

    assert len(answering.requests) == 1
    assert server.statuses(device.realm, 10) == {}
    assert (server.events[-1].status, server.events[-1].reason) == (DeviceStatus.REMOVED, reason)
    assert len(server.mails) == mails


@pytest.mark.parametrize(("code", "mails"), [(UNKNOWN_KEY, 0), (EXPIRED, 1), ("BAD_REQUEST", 0)])
async def test_a_refused_device_of_zulip_12_stays_with_the_code(clock: Clock, code: str, mails: int) -> None:
    server = server_before(Answering(error(code)), clock)

    device = await registered(server, keyed_device)

    assert server.statuses(device.realm, 10) == {device.name: "failed"}
    assert server.events[-1].reason == code
    assert len(server.mails) == mails


async def test_a_registration_that_was_replaced_meanwhile_changes_nothing(clock: Clock) -> None:
    server = server_before(Answering(error(UNKNOWN_KEY), success(device_id="d2")), clock)
    realm = server.add_realm("Engineering")

    server.register(account_device(realm))
    server.register(account_device(realm))
    await server.until_registered()

    assert server.statuses(realm, 10) == {"-1": "active"}
    assert UNKNOWN_KEY not in {event.reason for event in server.events}


async def test_the_server_can_fail_its_clients(clock: Clock) -> None:
    server = server_before(Answering(success(device_id="d1")), clock)
    realm = server.add_realm("Engineering")
    server.failures = 1

    with pytest.raises(ServerError):
        server.register(account_device(realm))

    assert not server.devices


async def test_content_is_sealed_for_the_apps_key(clock: Clock) -> None:
    answering = Answering(success(device_id="d1"), NOTIFIED)
    server = server_before(answering, clock)
    device = await registered(server, account_device)

    queued = await server.notify(device.realm, {"type": "test"})

    assert queued == 1
    [push] = answering.content()["notifications"]
    assert answering.content()["realm_uuid"] == str(device.realm.uuid)
    assert push["device_id"] == "d1"
    assert json.loads(SealedBox(PRIVATE_KEY).decrypt(b64decode(push["encrypted_content"]))) == {
        "type": "test",
        "realm_url": "https://engineering.example.org",
        "realm_name": "Engineering",
        "user_id": 10,
    }


async def test_zulip_12_encrypts_by_a_shared_key_and_says_how_it_is_pushed(clock: Clock) -> None:
    answering = Answering(success(), NOTIFIED, NOTIFIED)
    server = server_before(answering, clock)
    device = await registered(server, keyed_device)

    await server.notify(device.realm, {"type": "message"})
    await server.notify(device.realm, {"type": "remove", "message_ids": [31]})

    [alert], [removal] = (answering.content(number)["push_requests"] for number in (1, 2))
    assert alert["token_id"] == "+wKIhyAx/Eg="
    assert alert["http_headers"] == {"apns_priority": 10, "apns_push_type": "alert"}
    assert alert["payload"]["aps"] == {"mutable-content": 1, "alert": {"title": "New notification"}, "sound": "default"}
    assert alert["payload"]["push_key_id"] == 2408
    content = json.loads(SecretBox(KEY).decrypt(b64decode(alert["payload"]["encrypted_data"])))
    assert (content["type"], content["user_id"]) == ("message", 10)
    assert removal["http_headers"] == {"apns_priority": 5, "apns_push_type": "background"}
    assert removal["payload"]["aps"] == {"mutable-content": 1}


@pytest.mark.parametrize(("kind", "priority"), [("message", "high"), ("remove", "normal")])
async def test_a_push_for_android_has_a_priority_alone(clock: Clock, kind: str, priority: str) -> None:
    answering = Answering(success(), NOTIFIED)
    server = server_before(answering, clock)
    device = await registered(server, lambda realm: keyed_device(realm, TokenKind.FCM))

    await server.notify(device.realm, {"type": kind})

    [push] = answering.content()["push_requests"]
    assert push["fcm_priority"] == priority
    assert push.keys() == {"token_id", "fcm_priority", "payload"}
    assert push["payload"].keys() == {"push_key_id", "encrypted_data"}


async def test_what_is_not_encrypted_goes_first_until_the_bouncer_says_that_it_lacks_the_token(clock: Clock) -> None:
    deleted = {"android_devices": ["f1"], "apple_devices": []}
    answered = success(total_android_devices=0, total_apple_devices=0, deleted_devices=deleted, realm=None)
    answering = Answering(success(), answered, NOTIFIED, otherwise=NOTIFIED)
    server = server_before(answering, clock)
    device = await registered(server, keyed_device)
    server.legacy_tokens.add(LegacyToken(device.realm, TokenKind.FCM, "f1"))

    queued = [await server.notify(device.realm, {"type": "test"}) for _ in range(2)]

    assert answering.routes[1:] == ["push/notify", "push/e2ee/notify", "push/e2ee/notify"]
    assert answering.content(1)["android_devices"] == ["f1"]
    assert (queued, server.legacy_tokens) == ([1, 1], set())


async def test_an_error_of_what_is_not_encrypted_ends_the_encrypted_pushes_too(clock: Clock) -> None:
    answering = Answering(success(), error("BAD_REQUEST"))
    server = server_before(answering, clock)
    device = await registered(server, keyed_device)
    server.legacy_tokens.add(LegacyToken(device.realm, TokenKind.APNS, "a1"))

    with pytest.raises(BouncerRefusalError):
        await server.notify(device.realm, {"type": "test"})

    assert answering.routes[-1] == "push/notify"


async def test_a_key_is_rotated_as_shipped_with_a_report_by_the_old_one(clock: Clock) -> None:
    status = success(last_realm_count_id=0, last_installation_count_id=0, last_realmauditlog_id=0)
    answering = Answering(success(created=False), status, success(realms={}), otherwise=status)
    server = server_before(answering, clock)

    await server.rotate_key()
    await server.bouncer.call("GET", "server/analytics/status")

    _, *reports, after = (request.headers.get("authorization") for request in answering.requests)
    assert len(set(reports)) == 1
    assert after not in reports
    assert answering.fields(0)["new_org_key"] != answering.fields(0)["zulip_org_key"]


async def test_pushes_go_in_batches(clock: Clock) -> None:
    registrations = [success(device_id=f"d{number}") for number in range(BATCH + 1)]
    answering = Answering(*registrations, otherwise=NOTIFIED)
    server = server_before(answering, clock)
    realm = server.add_realm("Engineering")
    for number in range(BATCH + 1):
        server.register(account_device(realm, number))
    await server.until_registered()

    await server.notify(realm, {"type": "test"})

    sizes = [len(answering.content(number)["notifications"]) for number in (-2, -1)]
    assert sizes == [BATCH, 1]


@pytest.mark.parametrize(
    ("device_of", "gone"),
    [
        (account_device, {"errors": [{"device_id": "d1"}], "delete_token_ids": []}),
        (keyed_device, {"errors": [], "delete_token_ids": ["+wKIhyAx/Eg="]}),
    ],
)
async def test_what_the_bouncer_says_has_expired_is_removed_and_sent_nothing(
    clock: Clock, device_of: DeviceOf, gone: dict[str, Any]
) -> None:
    answering = Answering(success(device_id="d1"), (200, NOTIFIED[1] | gone))
    server = server_before(answering, clock)
    device = await registered(server, device_of)

    await server.notify(device.realm, {"type": "test"})
    queued = await server.notify(device.realm, {"type": "test"})

    assert (queued, len(answering.requests)) == (0, 2)
    assert server.statuses(device.realm, 10) == {}
    assert server.events[-1].status is DeviceStatus.REMOVED


async def test_the_cron_job_removes_what_has_expired_page_by_page(clock: Clock) -> None:
    first = success(errors=[{"device_id": "another"}], delete_token_ids=[], cursor="another")
    last = success(errors=[{"device_id": "d1"}], delete_token_ids=[], cursor=None)
    server = server_before(Answering(success(device_id="d1"), first, last), clock)
    device = await registered(server, account_device)

    await server.remove_expired()

    assert server.statuses(device.realm, 10) == {}


@pytest.mark.parametrize("key", [b"\x30" + KEY, b"\x31" + KEY[1:], b"\x31" + KEY + b"\0", b""])
async def test_a_key_of_another_form_is_refused(clock: Clock, key: bytes) -> None:
    device = keyed_device(server_before(Answering(), clock).add_realm("Engineering"))

    with pytest.raises(ValueError, match="key"):
        replace(device, push_key=b64encode(key).decode())
