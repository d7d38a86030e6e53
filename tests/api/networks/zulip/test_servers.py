"""The calls that a server makes of itself: `server/register`, `server/deactivate` and `server/analytics`."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from api.networks.zulip import servers
from api.networks.zulip.settings import ServerPolicy
from api.networks.zulip.worker import KEPT_SECONDS, Recent
from clarion.networks.zulip.servers import Realm, RealmState, Server, ServerState, find_server, has_key, key_hash
from tests.zulip import Clock, Reply, ZulipDevice, ZulipServer, new_org_key

type NewServer = Callable[..., ZulipServer]


def join(server: ZulipServer, **changes: Any) -> Reply:
    """As `manage.py register_server` does."""
    form = {
        "zulip_org_id": str(server.uuid),
        "zulip_org_key": server.key,
        "hostname": "chat.example.org",
        "contact_email": "admin@example.org",
    } | changes
    return server.post_form("/server/register", form, authorization="")


def report(server: ZulipServer, **changes: Any) -> Reply:
    """As a server's hourly job does; each field is JSON."""
    content = {
        "realm_counts": [],
        "installation_counts": [],
        "realmauditlog_rows": [],
        "realms": [realm_json(server)],
        "version": "12.0",
        "merge_base": "12.0",
        "api_feature_level": 483,
    } | changes
    return server.post_form("/server/analytics", {name: json.dumps(value) for name, value in content.items()})


def realm_json(server: ZulipServer, **changes: Any) -> dict[str, Any]:
    return {
        "id": 2,
        "uuid": str(server.realm),
        "uuid_owner_secret": "zuliprealm_secret",
        "host": "chat.example.org",
        "url": "https://chat.example.org",
        "name": "Chat",
        "org_type": 0,
        "date_created": 1_700_000_000.0,
        "deactivated": False,
        "is_system_bot_realm": False,
        "authentication_methods": {"Email": True},
    } | changes


@pytest.fixture
def stranger(new_server: NewServer) -> ZulipServer:
    """Where any server may register itself."""
    return new_server(server_policy=ServerPolicy.OPEN)


class TestRegistration:
    def test_a_server_registers_itself_then_its_realms_then_devices(self, stranger: ZulipServer) -> None:
        assert join(stranger).json == {"result": "success", "msg": "", "created": True}
        status = stranger.send("GET", "/server/analytics/status").json
        assert {status[f"last_{name}_id"] for name in ("realm_count", "installation_count", "realmauditlog")} == {0}
        assert stranger.register(ZulipDevice()).code == "MISSING_REMOTE_REALM"
        assert report(stranger).json["realms"] == {
            str(stranger.realm): {"can_push": True, "expected_end_timestamp": None}
        }
        assert stranger.register(ZulipDevice()).status == 200

    def test_its_key_is_kept_as_a_hash(self, stranger: ZulipServer) -> None:
        assert join(stranger).status == 200
        row = Server.get(str(stranger.uuid))
        assert row.key_hash == key_hash(stranger.key)
        assert (row.state, row.hostname, row.contact_email) == ("active", "chat.example.org", "admin@example.org")
        assert stranger.key not in repr(row.attribute_values)

    def test_again_it_changes_what_it_says(self, stranger: ZulipServer) -> None:
        assert join(stranger).status == 200
        created_at = Server.get(str(stranger.uuid)).created_at
        assert join(stranger, hostname="new.example.org:8443").json["created"] is False
        row = Server.get(str(stranger.uuid))
        assert (row.hostname, row.created_at) == ("new.example.org:8443", created_at)

    def test_it_rotates_its_key(self, stranger: ZulipServer) -> None:
        assert join(stranger).status == 200
        assert stranger.send("GET", "/server/analytics/status").status == 200
        old, stranger.key = stranger.key, new_org_key()
        assert join(stranger, zulip_org_key=old, new_org_key=stranger.key).json["created"] is False
        assert stranger.send("GET", "/server/analytics/status").status == 200, "its new key is not known yet"
        assert join(stranger, zulip_org_key=old).code == "INVALID_ZULIP_SERVER"

    def test_nobody_takes_over_a_servers_uuid(self, stranger: ZulipServer) -> None:
        assert join(stranger).status == 200
        reply = join(stranger, zulip_org_key=new_org_key(), hostname="evil.example.org")
        assert (reply.status, reply.code) == (401, "INVALID_ZULIP_SERVER")
        assert Server.get(str(stranger.uuid)).hostname == "chat.example.org"

    def test_by_invitation_only_who_is_invited(self, new_server: NewServer) -> None:
        server = new_server()
        assert join(server).code == "INVALID_ZULIP_SERVER"
        assert find_server(server.uuid) is None
        Server(str(server.uuid), state=ServerState.INVITED.value, created_at=0).save()
        assert server.send("GET", "/server/analytics/status").code == "INVALID_ZULIP_SERVER", "it has no key yet"
        assert join(server).json["created"] is True
        assert server.send("GET", "/server/analytics/status").status == 200

    def test_an_invitation_may_be_for_one_key_alone(self, new_server: NewServer) -> None:
        server = new_server()
        hashed = key_hash(server.key)
        Server(str(server.uuid), key_hash=hashed, state=ServerState.INVITED.value, created_at=0).save()
        assert join(server, zulip_org_key=new_org_key()).status == 401
        assert server.send("GET", "/server/analytics/status").code == "INVALID_ZULIP_SERVER", "it has not registered"
        assert join(server).status == 200

    @pytest.mark.parametrize("known", [True, False])
    def test_it_undoes_nothing_that_the_operator_does_meanwhile(
        self, stranger: ZulipServer, monkeypatch: pytest.MonkeyPatch, *, known: bool
    ) -> None:
        if known:
            stranger.admit()
        row = Server(str(stranger.uuid))

        def then_removed(server_uuid: UUID) -> Server | None:
            found = find_server(server_uuid)
            row.update([Server.state.set(ServerState.DEACTIVATED.value), Server.created_at.set(0)])
            return found

        monkeypatch.setattr(servers, "find_server", then_removed)
        assert join(stranger).status == 503
        row.refresh(consistent_read=True)
        assert row.state == ServerState.DEACTIVATED

    @pytest.mark.parametrize(
        "changes",
        [
            {"zulip_org_id": "none"},
            {"zulip_org_key": "short"},
            {"new_org_key": "short"},
            {"hostname": "https://chat.example.org"},
            {"hostname": "chat.example.org/path"},
            {"hostname": "a" * 129},
            {"contact_email": "nobody"},
            {"contact_email": "a b@example.org"},
        ],
    )
    def test_what_is_no_registration(self, stranger: ZulipServer, changes: dict[str, str]) -> None:
        reply = join(stranger, **changes)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")
        assert not any(value in reply.json["msg"] for value in changes.values())

    def test_it_is_throttled_for_all_together(self, stranger: ZulipServer, clock: Clock) -> None:
        clock.pass_seconds(3_600)
        replies = [join(stranger) for _ in range(61)]
        assert [reply.status for reply in replies] == [200] * 60 + [429]
        assert "Retry-After" in replies[-1].headers
        clock.pass_seconds(60)


class TestDeactivation:
    def test_it_ends_the_servers_calls(self, server: ZulipServer) -> None:
        assert server.post_json("/server/deactivate", {}).json == {"result": "success", "msg": ""}
        forgetful = Recent(find_server)
        server.worker = replace(server.worker, servers=forgetful)
        reply = server.send("GET", "/server/analytics/status")
        assert (reply.status, reply.code) == (401, "REALM_DEACTIVATED")
        assert join(server).code == "REALM_DEACTIVATED"

    def test_a_replaced_key_that_is_remembered_deactivates_nothing(self, server: ZulipServer) -> None:
        assert server.send("GET", "/server/analytics/status").status == 200
        assert join(server, new_org_key=new_org_key()).status == 200
        reply = server.post_json("/server/deactivate", {})
        assert (reply.status, reply.code) == (401, "INVALID_ZULIP_SERVER")
        assert Server.get(str(server.uuid)).state == ServerState.ACTIVE

    def test_what_is_remembered_of_a_server_is_not_for_long(self, server: ZulipServer) -> None:
        seconds = 0.0
        server.worker = replace(server.worker, servers=Recent(find_server, lambda: seconds))
        assert server.send("GET", "/server/analytics/status").status == 200
        Server(str(server.uuid)).update([Server.state.set(ServerState.DEACTIVATED.value)])
        seconds = KEPT_SECONDS - 1
        assert server.send("GET", "/server/analytics/status").status == 200
        seconds = KEPT_SECONDS
        assert server.send("GET", "/server/analytics/status").status == 401


class TestReport:
    def test_it_need_not_be_repeated(self, server: ZulipServer) -> None:
        rows = [{"id": number, "property": "messages_sent:is_bot:hour", "value": 1} for number in (4, 7)]
        assert report(server, realm_counts=rows, realmauditlog_rows=rows[:1]).status == 200
        assert report(server, realm_counts=rows[:1]).status == 200
        server.worker = replace(server.worker, servers=Recent(find_server))
        assert server.send("GET", "/server/analytics/status").json == {
            "result": "success",
            "msg": "",
            "last_realm_count_id": 7,
            "last_installation_count_id": 0,
            "last_realmauditlog_id": 4,
        }

    def test_older_servers_say_nothing_of_their_realms(self, server: ZulipServer) -> None:
        form = {"realm_counts": "[]", "installation_counts": "[]"}
        assert server.post_form("/server/analytics", form).json["realms"] == {}

    def test_a_deactivated_realm_is_not_pushed_to(self, server: ZulipServer) -> None:
        answered = report(server, realms=[realm_json(server, deactivated=True)]).json["realms"]
        assert answered[str(server.realm)]["can_push"] is False
        assert server.notify().code == "PUSH_NOTIFICATIONS_DISALLOWED"
        assert report(server).status == 200
        assert server.notify().status == 200, "it is active again"

    @pytest.mark.parametrize("deactivated", [True, False])
    def test_a_realm_that_the_operator_refuses_stays_refused(self, server: ZulipServer, *, deactivated: bool) -> None:
        row = Realm(str(server.realm))
        row.update([Realm.state.set(RealmState.REFUSED.value)])
        reply = report(server, realms=[realm_json(server, host="new.example.org", deactivated=deactivated)])
        assert reply.json["realms"][str(server.realm)]["can_push"] is False
        row.refresh(consistent_read=True)
        assert row.state == RealmState.REFUSED
        assert server.notify().code == "PUSH_NOTIFICATIONS_DISALLOWED"

    def test_another_servers_realm_is_refused_with_all_of_the_report(
        self, server: ZulipServer, known_server: NewServer
    ) -> None:
        other, new = known_server(), str(uuid4())
        realms = [realm_json(server, uuid=new), realm_json(server, uuid=str(other.realm))]
        reply = report(server, realms=realms)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")
        assert Realm.get(str(other.realm)).server_uuid == str(other.uuid)
        assert not list(Realm.batch_get([new]))

    def test_nothing_is_written_for_what_has_not_changed(self, server: ZulipServer) -> None:
        assert report(server).status == 200
        row = Realm.get(str(server.realm))
        row.update([Realm.created_at.set(5)])
        assert report(server).status == 200
        assert (row.state, Realm.get(str(server.realm)).created_at) == (RealmState.ACTIVE, 5)

    @pytest.mark.parametrize(
        "changes", [{"realms": [{"uuid": "none"}]}, {"realms": {}}, {"realm_counts": [{"id": -1}]}, {"realm_counts": 1}]
    )
    def test_what_is_no_report(self, server: ZulipServer, changes: dict[str, Any]) -> None:
        assert report(server, **changes).code == "BAD_REQUEST"


def test_no_key_is_that_of_a_server_without_one() -> None:
    assert not has_key(None, new_org_key())
    assert not has_key(Server("", state=ServerState.INVITED.value), new_org_key())
