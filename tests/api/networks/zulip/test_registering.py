"""`push/e2ee/register`, in both profiles."""

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from api.networks.zulip.bouncer_keys import KeyRing
from api.networks.zulip.worker import ZulipWorker
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.networks.zulip.devices import KEY_PREFIX_BYTES, LATEST, Profile, device_id, unpack
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.registration import LIVENESS_TIMEOUT
from clarion.networks.zulip.servers import Realm, RealmState
from clarion.secrets import Secret
from clarion.tables import Token, find_subscription
from clarion.tokens import hash_of
from tests.events import KeptEvents
from tests.zulip import OTHER_PUBLIC, PUBLIC, CallingServer, Clock, ZulipDevice, android, seal

MINUTE, DAY = 60, 86_400
VECTORS = json.loads((Path(__file__).parents[3] / "data" / "zulip.json").read_text())


def test_a_device_becomes_a_subscription_of_its_server(server: CallingServer, clock: Clock) -> None:
    device = ZulipDevice("C0FFEE" * 10)
    assert server.register(device).json == {"result": "success", "msg": ""}
    (row,) = server.rows()
    assert (row.network, row.channel, row.status, row.app) == ("zulip", "apns", "active", "first")
    assert row.token == device.token, "it has lost its case"
    data = unpack(row.network_data)
    assert (data.profile, data.realm, data.sealed_at) == (Profile.SHIPPED, server.realm, clock.seconds)
    assert row.subscription_id == device_id(server.uuid, server.realm, data.number)


def test_an_android_device_has_the_deployments_app(server: CallingServer) -> None:
    assert server.register(android()).status == 200
    assert [(row.channel, row.app) for row in server.rows()] == [("fcm", "first")]


def test_an_iphone_has_the_app_whose_bundle_it_names(server: CallingServer) -> None:
    assert server.register(ZulipDevice(ios_app_id="org.example.Chat")).status == 200
    assert [row.app for row in server.rows()] == ["tablet"]


def test_the_proposals_device_gets_an_id(server: CallingServer) -> None:
    device = ZulipDevice()
    device_id = server.register_account(device, 17)
    assert device_id == str(UUID(device_id))
    assert server.register_account(device, 17) == device_id
    assert server.register_account(device, 18) != device_id, "another account of the device"
    assert len(server.rows()) == 2


@pytest.mark.parametrize("account", [-(1 << 63), (1 << 64) - 1])
def test_an_account_has_64_bits_signed_or_not(server: CallingServer, account: int) -> None:
    server.register_account(ZulipDevice(), account)
    assert [unpack(row.network_data).number for row in server.rows()] == [account]


def test_a_registration_may_be_json(server: CallingServer, clock: Clock) -> None:
    device = android()
    content = {
        "realm_uuid": str(server.realm),
        "push_account_id": 17,
        "encrypted_push_registration": seal(device.registration(clock.seconds)),
        "bouncer_public_key": PUBLIC,
    }
    assert server.post_json("/push/e2ee/register", content).json["device_id"]


def test_the_same_registration_again_changes_nothing(server: CallingServer, emitted: KeptEvents) -> None:
    device = ZulipDevice()
    assert server.register(device).status == 200
    (before,), events = server.rows(), len(emitted.events)
    assert server.register(device).status == 200
    (after,) = server.rows()
    assert after.attribute_values == before.attribute_values
    assert (events, len(emitted.events)) == (1, 1)


def test_a_later_registration_is_noted(server: CallingServer, clock: Clock) -> None:
    """So it is known how many devices use which of the bouncer's keys."""
    device = ZulipDevice()
    assert server.register(device).status == 200
    clock.pass_seconds(30 * DAY)
    assert server.register(device, public_key=OTHER_PUBLIC).status == 200
    (row,) = server.rows()
    assert unpack(row.network_data).sealed_at == clock.seconds
    assert unpack(row.network_data).key_prefix == b64decode(OTHER_PUBLIC)[:KEY_PREFIX_BYTES]
    assert row.began_at < row.created_at == clock.now


@pytest.mark.parametrize("ahead", [1, 10 * DAY, 10**40])
def test_a_registration_of_the_future_is_taken_with_its_time(server: CallingServer, clock: Clock, ahead: int) -> None:
    assert server.register(ZulipDevice(), sealed_at=clock.seconds + ahead).status == 200
    assert [unpack(row.network_data).sealed_at for row in server.rows()] == [min(clock.seconds + ahead, LATEST)]


def test_one_token_serves_any_number_of_realms_and_accounts(
    known_server: Callable[..., CallingServer], server: CallingServer
) -> None:
    device, other = ZulipDevice(), known_server()
    assert [one.register(device).status for one in (server, other)] == [200, 200]
    server.register_account(device, 1)
    server.register_account(device, 2)
    rows = [*server.rows(), *other.rows()]
    assert {row.status for row in rows} == {SubscriptionStatus.ACTIVE}
    assert {token.subscription_id for token in Token.query(hash_of(rows[0]))} == {row.subscription_id for row in rows}


class TestRefusals:
    """In the order of Zulip's bouncer: each has the flaws of those after it, too."""

    @pytest.fixture
    def flawed(self) -> dict[str, Any]:
        return {
            "realm_uuid": str(uuid4()),
            "bouncer_public_key": "unknown",
            "encrypted_push_registration": "garbage",
            "token_id": android().token_id,
        }

    def test_in_the_references_order(self, server: CallingServer, clock: Clock, flawed: dict[str, Any]) -> None:
        device, stale = ZulipDevice(), clock.seconds - LIVENESS_TIMEOUT - 1

        def refusal(**mended: Any) -> tuple[int, str]:
            flawed.update(mended)
            reply = server.register(device, **flawed)
            assert reply.json["result"] == "error"
            return reply.status, reply.code

        assert refusal() == (403, "MISSING_REMOTE_REALM")
        assert refusal(realm_uuid=str(server.realm)) == (400, "INVALID_BOUNCER_PUBLIC_KEY")
        assert refusal(bouncer_public_key=PUBLIC) == (400, "BAD_REQUEST")
        strange = device.registration(stale, ios_app_id="org.example.Unknown")
        assert refusal(encrypted_push_registration=seal(strange)) == (400, "BAD_REQUEST"), "another token"
        assert refusal(token_id=device.token_id) == (400, "REQUEST_EXPIRED")
        fresh = {**strange, "timestamp": clock.seconds}
        assert refusal(encrypted_push_registration=seal(fresh)) == (400, "BAD_REQUEST"), "no credentials for its app"
        assert not server.rows()

    def test_another_servers_realm(self, server: CallingServer, known_server: Callable[..., CallingServer]) -> None:
        reply = server.register(ZulipDevice(), realm_uuid=str(known_server().realm))
        assert (reply.status, reply.code) == (403, "REMOTE_REALM_SERVER_MISMATCH_ERROR")

    def test_a_deactivated_realm(self, server: CallingServer) -> None:
        Realm(str(server.realm)).update([Realm.state.set(RealmState.DEACTIVATED.value)])
        assert server.register(ZulipDevice()).code == "PUSH_NOTIFICATIONS_DISALLOWED"

    @pytest.mark.parametrize(
        "changes",
        [
            {"token_id": None},
            {"push_account_id": 17},
            {"token_id": None, "push_account_id": 1 << 64},
            {"token_id": None, "push_account_id": "seventeen"},
            {"realm_uuid": "none"},
            {"token_id": "AAAA"},
            {"token_id": "ÿ"},
            {"encrypted_push_registration": ""},
        ],
    )
    def test_what_is_no_registration(self, server: CallingServer, changes: dict[str, Any]) -> None:
        reply = server.register(ZulipDevice(), **changes)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")

    @pytest.mark.parametrize("name", ["realm_uuid", "encrypted_push_registration", "bouncer_public_key"])
    def test_a_missing_argument_is_named(self, server: CallingServer, name: str) -> None:
        without: dict[str, Any] = {name: None}
        reply = server.register(ZulipDevice(), **without)
        assert (reply.status, reply.code, reply.json["var_name"]) == (400, "REQUEST_VARIABLE_MISSING", name)

    def test_an_android_device_without_an_app_for_it(self, server: CallingServer) -> None:
        settings = server.worker.settings.model_copy(update={"fcm_app": None})
        server.worker = replace(server.worker, settings=settings)
        assert server.register(android()).code == "BAD_REQUEST"

    def test_more_devices_than_the_servers_quota(self, known_server: Callable[..., CallingServer]) -> None:
        server, first = known_server(max_devices=2), ZulipDevice()
        assert [server.register(one).status for one in (first, ZulipDevice())] == [200, 200]
        reply = server.register(ZulipDevice())
        assert (reply.status, reply.code) == (503, "SERVER_NOT_READY"), "which a server tries again"
        assert int(reply.headers["Retry-After"]) == reply.json["retry-after"] > 0
        assert server.register(first).status == 200, "it is there already"


@pytest.fixture(scope="module")
def keys_of_vectors(zulip_worker: ZulipWorker) -> KeyRing:
    pairs = [
        {"public": public, "private": private, "made_at": 0} for public, private in VECTORS["bouncer_keys"].items()
    ]
    client = boto3.client("secretsmanager")
    client.create_secret(Name="vectors", SecretString=json.dumps({"keys": pairs}))
    return KeyRing(Secret(client, "vectors", BouncerKeys))


@pytest.mark.parametrize("vector", VECTORS["registrations"], ids=lambda vector: vector["case"])
def test_each_recorded_registration_is_answered_as_by_zulips_bouncer(
    server: CallingServer, clock: Clock, keys_of_vectors: KeyRing, vector: dict[str, Any]
) -> None:
    clock.now = VECTORS["now"] * 1000
    server.worker = replace(server.worker, keys=keys_of_vectors)
    sent = ("token_id", "encrypted_push_registration", "bouncer_public_key")
    reply = server.register(ZulipDevice(), **{name: vector[name] for name in sent})
    code, _, text = vector["expect"].partition(":")
    if code == "success":
        assert reply.json == {"result": "success", "msg": ""}
    else:
        assert (reply.status, reply.code) == (400, code)
        assert text in reply.json["msg"]


class TestEnded:
    """A device whose token was found dead."""

    @pytest.fixture
    def device(self, server: CallingServer, clock: Clock) -> ZulipDevice:
        device = ZulipDevice()
        assert server.register(device).status == 200
        clock.pass_seconds(MINUTE)
        server.kill(*server.rows())
        return device

    def test_what_was_sealed_since_revives_it(self, server: CallingServer, device: ZulipDevice, clock: Clock) -> None:
        (ended,) = server.rows()
        clock.pass_seconds(MINUTE)
        assert server.register(device).status == 200
        (row,) = server.rows()
        assert (row.subscription_id, row.status) == (ended.subscription_id, "active")
        assert row.began_at == row.created_at == clock.now
        assert "ttl" not in row.attribute_values
        assert [token.subscription_id for token in Token.query(hash_of(row))] == [row.subscription_id]

    def test_what_was_sealed_in_the_second_of_its_end_revives_it(self, server: CallingServer, clock: Clock) -> None:
        device = ZulipDevice()
        clock.now = clock.seconds * 1000 + 999
        assert server.register(device, sealed_at=clock.seconds - 1).status == 200
        server.kill(*server.rows())
        assert server.register(device).status == 200
        assert [row.status for row in server.rows()] == ["active"]

    def test_what_was_sealed_before_is_too_old(self, server: CallingServer, device: ZulipDevice, clock: Clock) -> None:
        before = clock.seconds - 1
        clock.pass_seconds(MINUTE)
        reply = server.register(device, sealed_at=before)
        assert (reply.status, reply.code) == (400, "REQUEST_EXPIRED")
        assert [row.status for row in server.rows()] == ["invalid"]

    def test_what_was_sealed_in_the_future_revives_it_once(self, server: CallingServer, clock: Clock) -> None:
        device, future = ZulipDevice(), clock.seconds + 10 * DAY
        for sealed_at in (future, future + 1):
            assert server.register(device, sealed_at=sealed_at).status == 200
            server.kill(*server.rows())
            clock.pass_seconds(MINUTE)
            refused = [server.register(device, sealed_at=at).code for at in (sealed_at, future - DAY, clock.seconds)]
            assert refused == ["REQUEST_EXPIRED"] * 3
            assert [row.status for row in server.rows()] == ["invalid"]

    def test_a_late_report_of_its_death_does_not_end_it_again(
        self, server: CallingServer, known_server: Callable[..., CallingServer], clock: Clock
    ) -> None:
        device = ZulipDevice()
        assert server.register(device).status == 200
        tried = next(row for row in server.rows() if row.token == device.token)
        server.kill(tried)
        clock.pass_seconds(MINUTE)
        assert server.register(device).status == 200
        declare_dead(server.worker.connection, tried, Death("Unregistered", at=clock.now))
        row = find_subscription(tried.subscription_id)
        assert row is not None
        assert row.status == "active"


def test_neither_token_nor_sealed_registration_is_in_an_event(server: CallingServer, emitted: KeptEvents) -> None:
    device = ZulipDevice()
    assert server.register(device).status == 200
    lines = b"".join(event.to_line() for event in emitted.events)
    assert lines
    assert device.token.encode() not in lines
