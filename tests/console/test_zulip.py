"""The servers, realms and bouncer keys of Zulip, as an operator keeps them."""

import json
import time
from base64 import b64decode
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from clarion.clock import now_ms
from clarion.decisions import PushDecision
from clarion.events import PushTried
from clarion.networks import STATEMENTS, ZULIP
from clarion.networks.zulip import devices, keys
from clarion.networks.zulip.devices import DeviceData, Profile
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.payload import ApnsBody, ShippedContent, push_of
from clarion.networks.zulip.servers import FORMER_KEY_MS, Realm, Server, find_realm, find_server
from clarion.tables import Subscription
from console.faults import Exit
from console.zulip import bouncer_keys
from tests.console.account import PREFIX, Account, Clarion

SERVER, OTHER, REALM = uuid4(), uuid4(), uuid4()
KEY_HASH = sha256(b"k" * 64).digest()
BY_KEY = ("--key-hash", KEY_HASH.hex())
TWO = BouncerKeys().rotated(1_700_000_000).rotated(1_760_000_000)
OLD, NEW = (key.public for key in TWO.keys)
MONTH = 30 * 86_400


@pytest.fixture
def zulip(account: Account) -> None:
    """It is served, with two bouncer keys."""
    account.serve_zulip(TWO.text)


def stored_keys() -> BouncerKeys:
    client = boto3.client("secretsmanager")
    return keys.read(client.get_secret_value(SecretId=f"{PREFIX}{BOUNCER_SECRET}")["SecretString"])


def register(public: str, *, age: int = 0, server: UUID = SERVER, status: str = "active") -> None:
    """A device, which was registered `age` seconds ago, by a clock that is ahead."""
    data = DeviceData(
        Profile.SHIPPED, REALM, 1, b64decode(public)[: devices.KEY_PREFIX_BYTES], int(time.time()) + MONTH
    )
    created_at = now_ms() - age * 1000
    subscribe(ZULIP, client_id=server.bytes, status=status, network_data=devices.pack(data), created_at=created_at)


def subscribe(network: str, **changes: Any) -> None:
    attributes: dict[str, Any] = {"client_id": b"c" * 32, "channel": "fcm", "token": "t", "status": "active"}
    numbers = {"generation": 0, "rule_count": 0, "created_at": 1, "updated_at": 1}
    Subscription(str(uuid4()), network=network, **(attributes | numbers | changes)).save()


def found_server(server: UUID = SERVER) -> Server:
    row = find_server(server)
    assert row is not None
    return row


def found_realm() -> Realm:
    row = find_realm(REALM)
    assert row is not None
    return row


@pytest.mark.usefixtures("zulip")
def test_a_server_is_let_in_by_its_key(clarion: Clarion) -> None:
    ended = clarion("zulip", "server", "add", str(SERVER), "--hostname", "chat.example.org", *BY_KEY)

    assert ended.code == Exit.WELL
    assert "is active at prod" in ended.out
    assert (found_server().state, found_server().hostname) == ("active", "chat.example.org")
    assert found_server().key_hash == KEY_HASH


@pytest.mark.usefixtures("zulip")
def test_no_server_is_let_in_without_one(clarion: Clarion) -> None:
    ended = clarion("zulip", "server", "add", str(SERVER), "--hostname", "chat.example.org")

    assert (ended.code, "--key-hash" in ended.err) == (Exit.USAGE, True)
    assert find_server(SERVER) is None


@pytest.mark.usefixtures("zulip")
def test_adding_again_changes_what_is_named_and_nothing_else(clarion: Clarion) -> None:
    clarion("zulip", "server", "add", str(SERVER), *BY_KEY, "--contact", "a@example.org")
    before = found_server()

    clarion("zulip", "server", "add", str(SERVER), "--devices", "50", "--pushes-a-minute", "600", "--realms", "7")

    changed = {"max_devices": 50, "pushes_a_minute": 600, "max_realms": 7}
    assert found_server().attribute_values == before.attribute_values | changed


@pytest.mark.usefixtures("zulip")
def test_a_quota_is_taken_back_to_the_default(clarion: Clarion) -> None:
    clarion("zulip", "server", "add", str(SERVER), *BY_KEY, "--devices", "50", "--realms", "7")

    clarion("zulip", "server", "add", str(SERVER), "--devices", "default")

    quotas = found_server().attribute_values
    assert ("max_devices" in quotas, quotas["max_realms"]) == (False, 7)
    assert clarion("zulip", "server", "add", str(SERVER), "--devices", "0").code == Exit.USAGE
    assert "max_devices" not in found_server().attribute_values


@pytest.mark.usefixtures("zulip")
def test_realms_are_listed_by_their_servers(clarion: Clarion) -> None:
    for server in (SERVER, OTHER):
        clarion("zulip", "server", "add", str(server), *BY_KEY)
        clarion("zulip", "realm", "add", str(uuid4()), "--server", str(server), "--host", f"chat.{server}.example.org")

    def listed(*words: str) -> list[tuple[str, str]]:
        realms = json.loads(clarion("zulip", "realm", "list", *words, "--json").out)["realms"]
        return [(one["server_uuid"], one["host"]) for one in realms]

    both = [(str(server), f"chat.{server}.example.org") for server in sorted((SERVER, OTHER), key=str)]
    assert listed() == both
    assert listed("--server", str(OTHER)) == [one for one in both if one[0] == str(OTHER)]
    assert str(SERVER) in clarion("zulip", "realm", "list").out


@pytest.mark.usefixtures("zulip")
def test_with_a_new_key_the_one_that_the_server_has_just_replaced_ends_too(clarion: Clarion) -> None:
    clarion("zulip", "server", "add", str(SERVER), *BY_KEY)
    row = found_server()
    row.former_key_hash, row.former_key_until = b"f" * 32, now_ms() + FORMER_KEY_MS
    row.save()

    clarion("zulip", "server", "add", str(SERVER), "--devices", "50")
    assert found_server().key_hashes(now_ms()) == [KEY_HASH, b"f" * 32]

    clarion("zulip", "server", "add", str(SERVER), *BY_KEY)
    assert found_server().key_hashes(now_ms()) == [KEY_HASH]


@pytest.mark.usefixtures("zulip")
def test_a_removed_server_is_refused_until_it_is_added_again(clarion: Clarion) -> None:
    clarion("zulip", "server", "add", str(SERVER), *BY_KEY)

    assert "deactivated" in clarion("zulip", "server", "remove", str(SERVER), "--yes").out
    assert found_server().state == "deactivated"

    clarion("zulip", "server", "add", str(SERVER))
    assert (found_server().state, found_server().key_hash) == ("active", KEY_HASH)


@pytest.mark.usefixtures("zulip")
def test_servers_are_listed_with_their_realms_and_devices(clarion: Clarion) -> None:
    for server, name in ((OTHER, "b.example.org"), (SERVER, "a.example.org")):
        clarion("zulip", "server", "add", str(server), "--hostname", name, *BY_KEY)
    clarion("zulip", "realm", "add", str(REALM), "--server", str(SERVER))
    register(NEW)
    register(NEW)
    register(NEW, server=OTHER)

    listed = json.loads(clarion("zulip", "server", "list", "--json").out)["servers"]

    assert [(one["hostname"], one["realms"], one["devices"]) for one in listed] == [
        ("a.example.org", 1, 2),
        ("b.example.org", 0, 1),
    ]
    assert "a.example.org" in clarion("zulip", "server", "list").out


@pytest.mark.usefixtures("zulip")
def test_no_list_shows_what_a_server_authenticates_with(clarion: Clarion) -> None:
    clarion("zulip", "server", "add", str(SERVER), *BY_KEY)

    assert KEY_HASH.hex() not in clarion("zulip", "server", "list", "--json").out


@pytest.mark.usefixtures("zulip")
def test_a_realm_moves_to_another_server_only_when_that_is_confirmed(clarion: Clarion) -> None:
    for server in (SERVER, OTHER):
        clarion("zulip", "server", "add", str(server), *BY_KEY)
    clarion("zulip", "realm", "add", str(REALM), "--server", str(SERVER), "--host", "a.example.org")

    refused = clarion("zulip", "realm", "add", str(REALM), "--server", str(OTHER), typed="n\n")
    assert f"from server {SERVER}?" in refused.err
    assert (refused.code, found_realm().server_uuid) == (Exit.USAGE, str(SERVER))

    clarion("zulip", "realm", "add", str(REALM), "--server", str(OTHER), "--yes")
    assert (found_realm().server_uuid, found_realm().host) == (str(OTHER), "a.example.org")


@pytest.mark.usefixtures("zulip")
def test_a_removed_realm_is_refused_until_it_is_added_again(clarion: Clarion) -> None:
    clarion("zulip", "server", "add", str(SERVER), *BY_KEY)
    for change, state in (("add", "active"), ("remove", "refused"), ("add", "active")):
        of_server = ("--server", str(SERVER)) if change == "add" else ()
        clarion("zulip", "realm", change, str(REALM), *of_server, "--yes")
        assert found_realm().state == state


@pytest.mark.usefixtures("zulip")
@pytest.mark.parametrize(
    "words",
    [
        ("server", "remove", str(SERVER), "--yes"),
        ("realm", "add", str(REALM), "--server", str(SERVER)),
        ("realm", "remove", str(REALM), "--yes"),
        ("retire-key", "unknown", "--yes"),
        ("rotate-key", "--first", "--yes"),
    ],
)
def test_what_is_not_there_is_not_changed(clarion: Clarion, words: tuple[str, ...]) -> None:
    assert clarion("zulip", *words).code == Exit.USAGE
    assert (find_server(SERVER), find_realm(REALM), stored_keys()) == (None, None, TWO)


@pytest.mark.usefixtures("zulip")
def test_keys_are_listed_with_the_devices_that_they_registered(clarion: Clarion) -> None:
    register(OLD, age=MONTH + 60)
    register(OLD, age=MONTH - 60)
    register(NEW)
    register(NEW, status="invalid")
    subscribe(STATEMENTS)
    subscribe(ZULIP)

    listed = json.loads(clarion("zulip", "keys", "--json").out)

    assert [(one["public"], one["devices"], one["lately"]) for one in listed["keys"]] == [(OLD, 2, 1), (NEW, 1, 1)]
    assert listed["unknown"] == 1


@pytest.mark.usefixtures("zulip")
def test_a_rotation_adds_a_key_and_shows_its_public_half_alone(clarion: Clarion) -> None:
    ended = clarion("zulip", "rotate-key", "--yes")

    kept, made = stored_keys().keys[:2], stored_keys().keys[2]
    assert kept == TWO.keys
    assert f"For the app's next release: {made.public}" in ended.out
    assert not any(private in ended.out + ended.err for private in stored_keys().opening.values())


@pytest.mark.usefixtures("zulip")
@pytest.mark.parametrize("words", [("rotate-key",), ("retire-key", OLD)])
def test_of_two_changes_at_once_the_second_is_refused(
    clarion: Clarion, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The other operator changes the keys while this one is being asked."""
    changed = list[BouncerKeys]()

    def change_first(*_: object, yes: bool) -> None:
        if not yes:
            clarion("zulip", "rotate-key", "--yes")
            changed.append(stored_keys())

    monkeypatch.setattr(bouncer_keys, "confirm", change_first)
    ended = clarion("zulip", *words)

    assert (ended.code, "somebody else" in ended.err) == (Exit.TROUBLE, True)
    assert [stored_keys()] == changed


@pytest.mark.usefixtures("zulip")
@pytest.mark.parametrize("words", [("rotate-key",), ("retire-key", OLD)])
def test_no_key_is_changed_unconfirmed(clarion: Clarion, words: tuple[str, ...]) -> None:
    assert clarion("zulip", *words, typed="n\n").code == Exit.USAGE
    assert stored_keys() == TWO


@pytest.mark.usefixtures("zulip")
def test_a_key_is_retired_knowing_who_still_registers_with_it(clarion: Clarion) -> None:
    register(OLD)

    ended = clarion("zulip", "retire-key", OLD, typed="y\n")

    assert "In the last month 1 devices registered with it" in ended.err
    assert list(stored_keys().opening) == [NEW]


@pytest.mark.usefixtures("zulip")
def test_the_only_key_stays(clarion: Clarion) -> None:
    clarion("zulip", "retire-key", OLD, "--yes")

    assert clarion("zulip", "retire-key", NEW, "--yes").code == Exit.USAGE
    assert list(stored_keys().opening) == [NEW]


def test_a_secret_that_was_not_filled_in_gets_its_first_key_on_demand(clarion: Clarion, account: Account) -> None:
    account.serve_zulip("r4nd0m{letters")

    ended = clarion("zulip", "rotate-key", "--yes")
    assert ended.code == Exit.TROUBLE
    assert "--first" in ended.err

    assert clarion("zulip", "rotate-key", "--first", "--yes").code == Exit.WELL
    assert len(stored_keys().opening) == 1


def test_a_push_is_looked_for_by_the_hash_of_its_content(clarion: Clarion, account: Account) -> None:
    sealed = "sFTvSwHt"
    content = ShippedContent(push_key_id=1, encrypted_data=sealed)
    push = push_of(str(uuid4()), SERVER.bytes, ApnsBody(content=content), now_ms())
    tried = PushTried(
        at=push.observed_at,
        network=ZULIP,
        receipt=push.receipt,
        envelope_id=push.envelope_id,
        channel=push.channel,
        decision=PushDecision.DELIVERED,
        subscription_id=push.subscription_id,
        attempt=1,
        latency_ms=5,
    )
    account.write_to_lake(tried)

    ended = clarion("why", "--envelope", sha256(sealed.encode()).hexdigest(), "--json")

    [trace] = json.loads(ended.out)["traces"]
    assert [step["what"] for step in trace["steps"]] == ["delivered"]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("words", [("server", "list"), ("keys",), ("rotate-key", "--yes")])
def test_a_deployment_without_zulip_says_so(clarion: Clarion, words: tuple[str, ...]) -> None:
    ended = clarion("zulip", *words)

    assert ended.code == Exit.TROUBLE
    assert "does not serve Zulip" in ended.err
