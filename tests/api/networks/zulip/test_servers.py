"""The calls that a server makes of itself: `server/register`, `server/deactivate` and `server/analytics`."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from api import quotas
from api.networks.zulip import analytics, servers
from api.networks.zulip.servers import OF_ADDRESS, OF_ALL
from api.networks.zulip.settings import ServerPolicy
from api.quotas import Rate
from api.recent import KEPT_SECONDS, Recent
from clarion.networks.zulip.servers import (
    FORMER_KEY_MS,
    Realm,
    RealmState,
    Server,
    ServerState,
    find_server,
    has_key,
    key_hash,
)
from local.zulip_server import new_org_key
from tests.zulip import CallingServer, Clock, Reply, ZulipDevice

type NewServer = Callable[..., CallingServer]


def join(server: CallingServer, **changes: Any) -> Reply:
    """As `manage.py register_server` does."""
    form = {
        "zulip_org_id": str(server.uuid),
        "zulip_org_key": server.key,
        "hostname": "chat.example.org",
        "contact_email": "admin@example.org",
    } | changes
    return server.post_form("/server/register", form, authorization="")


def report(server: CallingServer, **changes: Any) -> Reply:
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


def realm_json(server: CallingServer, **changes: Any) -> dict[str, Any]:
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


class TestRegistration:
    def test_a_server_registers_itself_then_its_realms_then_devices(self, stranger: CallingServer) -> None:
        assert join(stranger).json == {"result": "success", "msg": "", "created": True}
        status = stranger.send("GET", "/server/analytics/status").json
        assert {status[f"last_{name}_id"] for name in ("realm_count", "installation_count", "realmauditlog")} == {0}
        assert stranger.register(ZulipDevice()).code == "MISSING_REMOTE_REALM"
        assert report(stranger).json["realms"] == {
            str(stranger.realm): {"can_push": True, "expected_end_timestamp": None}
        }
        assert stranger.register(ZulipDevice()).status == 200

    def test_its_key_is_kept_as_a_hash(self, stranger: CallingServer) -> None:
        assert join(stranger).status == 200
        row = Server.get(str(stranger.uuid))
        assert row.key_hash == key_hash(stranger.key)
        assert (row.state, row.hostname, row.contact_email) == ("active", "chat.example.org", "admin@example.org")
        assert stranger.key not in repr(row.attribute_values)

    def test_again_it_changes_what_it_says(self, stranger: CallingServer) -> None:
        assert join(stranger).status == 200
        created_at = Server.get(str(stranger.uuid)).created_at
        assert join(stranger, hostname="new.example.org:8443").json["created"] is False
        row = Server.get(str(stranger.uuid))
        assert (row.hostname, row.created_at) == ("new.example.org:8443", created_at)

    def test_nobody_takes_over_a_servers_uuid(self, stranger: CallingServer) -> None:
        assert join(stranger).status == 200
        reply = join(stranger, zulip_org_key=new_org_key(), hostname="evil.example.org")
        assert (reply.status, reply.code) == (401, "INVALID_ZULIP_SERVER")
        assert Server.get(str(stranger.uuid)).hostname == "chat.example.org"

    def test_by_invitation_only_whom_the_operator_has_added(self, new_server: NewServer) -> None:
        server = new_server()
        assert join(server).code == "INVALID_ZULIP_SERVER"
        assert find_server(server.uuid) is None
        server.admit()
        assert join(server).json["created"] is False, "it is no news"
        assert Server.get(str(server.uuid)).hostname == "chat.example.org"

    @pytest.mark.parametrize("state", ServerState)
    def test_who_is_refused_does_not_learn_which_servers_are_known(
        self, new_server: NewServer, state: ServerState
    ) -> None:
        unknown, known = join(new_server()), new_server()
        known.admit(state=state.value)
        refused = join(known, zulip_org_key=new_org_key())
        assert (refused.status, refused.headers, refused.json) == (401, unknown.headers, unknown.json)
        assert unknown.status == 401

    def test_a_new_server_is_known_by_the_key_that_it_has(self, stranger: CallingServer) -> None:
        """`manage.py register_server --rotate-key` keeps its old key where the server was not known."""
        assert join(stranger, new_org_key=new_org_key()).json["created"] is True
        assert stranger.send("GET", "/server/analytics/status").status == 200

    @pytest.mark.parametrize("known", [True, False])
    def test_it_undoes_nothing_that_the_operator_does_meanwhile(
        self, stranger: CallingServer, monkeypatch: pytest.MonkeyPatch, *, known: bool
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
    def test_what_is_no_registration(self, stranger: CallingServer, changes: dict[str, str]) -> None:
        reply = join(stranger, **changes)
        assert (reply.status, reply.code) == (400, "BAD_REQUEST")
        assert not any(value in reply.json["msg"] for value in changes.values())

    def test_new_servers_are_limited_by_the_address_that_they_come_from(
        self, stranger: CallingServer, new_server: NewServer
    ) -> None:
        replies = [join(stranger, zulip_org_id=str(uuid4())) for _ in range(OF_ADDRESS.limit + 1)]
        assert [reply.status for reply in replies] == [200] * OF_ADDRESS.limit + [429]
        assert int(replies[-1].headers["Retry-After"]) > 0
        assert join(new_server(server_policy=ServerPolicy.OPEN)).status == 200, "it comes from elsewhere"

    def test_new_servers_are_limited_for_all_together(self, new_server: NewServer, clock: Clock) -> None:
        clock.pass_seconds(3_600)
        replies = [join(new_server(server_policy=ServerPolicy.OPEN)) for _ in range(OF_ALL.limit + 1)]
        assert [reply.status for reply in replies] == [200] * OF_ALL.limit + [429]

    def test_a_server_that_is_known_needs_no_share_of_what_new_ones_use_up(
        self, stranger: CallingServer, clock: Clock
    ) -> None:
        stranger.admit()
        clock.pass_seconds(7_200)
        for name in ("zulip_servers", f"zulip_servers:{stranger.address}"):
            quotas.require(name, Rate(1, OF_ALL.seconds), clock(), "used up")
        assert [join(stranger).status for _ in range(OF_ADDRESS.limit + 1)] == [200] * (OF_ADDRESS.limit + 1)


class TestRotationOfItsKey:
    @pytest.fixture
    def new_key(self, server: CallingServer) -> str:
        """What `manage.py register_server --rotate-key` has just sent."""
        key = new_org_key()
        assert join(server, new_org_key=key).json["created"] is False
        return key

    def test_it_reports_by_the_former_key_before_it_keeps_the_new_one(
        self, server: CallingServer, new_key: str
    ) -> None:
        assert (server.send("GET", "/server/analytics/status").status, report(server).status) == (200, 200)
        server.key = new_key
        assert server.send("GET", "/server/analytics/status").status == 200

    def test_the_former_key_ends_after_ten_minutes(self, server: CallingServer, clock: Clock, new_key: str) -> None:
        server.worker = replace(server.worker, servers=Recent(find_server))
        clock.now += FORMER_KEY_MS - 1
        assert server.send("GET", "/server/analytics/status").status == 200
        clock.now += 1
        assert server.send("GET", "/server/analytics/status").code == "INVALID_ZULIP_SERVER"
        assert join(server).code == "INVALID_ZULIP_SERVER"
        server.key = new_key
        assert server.send("GET", "/server/analytics/status").status == 200

    @pytest.mark.parametrize("replaced_again", [True, False])
    def test_a_server_whose_answer_was_lost_registers_by_the_key_that_it_has(
        self, server: CallingServer, clock: Clock, new_key: str, *, replaced_again: bool
    ) -> None:
        kept = new_org_key() if replaced_again else server.key
        assert join(server, **({"new_org_key": kept} if replaced_again else {})).status == 200
        clock.now += FORMER_KEY_MS
        server.key = kept
        assert server.send("GET", "/server/analytics/status").status == 200
        server.key = new_key
        assert server.send("GET", "/server/analytics/status").status == 401

    @pytest.mark.parametrize("remembered", [True, False])
    def test_the_former_key_deactivates_nothing(self, server: CallingServer, *, remembered: bool) -> None:
        if remembered:
            assert server.send("GET", "/server/analytics/status").status == 200
        assert join(server, new_org_key=new_org_key()).status == 200
        reply = server.post_json("/server/deactivate", {})
        assert (reply.status, reply.code) == (401, "INVALID_ZULIP_SERVER")
        assert Server.get(str(server.uuid)).state == ServerState.ACTIVE


class TestDeactivation:
    def test_it_ends_the_servers_calls(self, server: CallingServer) -> None:
        assert server.post_json("/server/deactivate", {}).json == {"result": "success", "msg": ""}
        forgetful = Recent(find_server)
        server.worker = replace(server.worker, servers=forgetful)
        reply = server.send("GET", "/server/analytics/status")
        assert (reply.status, reply.code) == (401, "REALM_DEACTIVATED")
        assert join(server).code == "REALM_DEACTIVATED"

    def test_what_is_remembered_of_a_server_is_not_for_long(self, server: CallingServer) -> None:
        seconds = 0.0
        server.worker = replace(server.worker, servers=Recent(find_server, lambda: seconds))
        assert server.send("GET", "/server/analytics/status").status == 200
        Server(str(server.uuid)).update([Server.state.set(ServerState.DEACTIVATED.value)])
        seconds = KEPT_SECONDS - 1
        assert server.send("GET", "/server/analytics/status").status == 200
        seconds = KEPT_SECONDS
        assert server.send("GET", "/server/analytics/status").status == 401


class TestReport:
    def test_it_need_not_be_repeated(self, server: CallingServer) -> None:
        rows = [{"id": number, "property": "messages_sent:is_bot:hour", "value": 1} for number in (4, 7)]
        assert report(server, realm_counts=rows, realmauditlog_rows=rows[:1]).status == 200
        assert report(server, realm_counts=rows[:1]).status == 200
        assert server.send("GET", "/server/analytics/status").json == {
            "result": "success",
            "msg": "",
            "last_realm_count_id": 7,
            "last_installation_count_id": 0,
            "last_realmauditlog_id": 4,
        }

    def test_a_report_that_is_overtaken_sets_nothing_back(
        self, server: CallingServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def then_further(server_uuid: UUID) -> Server | None:
            found = find_server(server_uuid)
            Server(str(server_uuid)).update([Server.last_realm_count_id.set(9)])
            return found

        monkeypatch.setattr(analytics, "find_server", then_further)
        assert report(server, realm_counts=[{"id": 7}], installation_counts=[{"id": 3}]).status == 200
        row = Server.get(str(server.uuid))
        assert (row.last_realm_count_id, row.last_installation_count_id) == (9, 0)

    def test_older_servers_say_nothing_of_their_realms(self, server: CallingServer) -> None:
        form = {"realm_counts": "[]", "installation_counts": "[]"}
        assert server.post_form("/server/analytics", form).json["realms"] == {}

    def test_a_deactivated_realm_is_not_pushed_to(self, server: CallingServer) -> None:
        answered = report(server, realms=[realm_json(server, deactivated=True)]).json["realms"]
        assert answered[str(server.realm)]["can_push"] is False
        assert server.notify().code == "PUSH_NOTIFICATIONS_DISALLOWED"
        assert report(server).status == 200
        assert server.notify().status == 200, "it is active again"

    @pytest.mark.parametrize("deactivated", [True, False])
    def test_a_realm_that_the_operator_refuses_stays_refused(self, server: CallingServer, *, deactivated: bool) -> None:
        row = Realm(str(server.realm))
        row.update([Realm.state.set(RealmState.REFUSED.value)])
        reply = report(server, realms=[realm_json(server, host="new.example.org", deactivated=deactivated)])
        assert reply.json["realms"][str(server.realm)]["can_push"] is False
        row.refresh(consistent_read=True)
        assert row.state == RealmState.REFUSED
        assert server.notify().code == "PUSH_NOTIFICATIONS_DISALLOWED"

    def test_another_servers_realm_is_refused_by_name_and_all_else_is_taken(
        self, server: CallingServer, known_server: NewServer
    ) -> None:
        other, new = known_server(), str(uuid4())
        realms = [
            realm_json(server, uuid=str(other.realm)),
            realm_json(server, uuid=new),
            realm_json(server, host="new.example.org"),
        ]
        reply = report(server, realms=realms, realm_counts=[{"id": 4}])
        assert (reply.status, reply.code, reply.json["realm_uuids"]) == (400, "BAD_REQUEST", [str(other.realm)])
        assert reply.json["msg"].startswith(f"Duplicate registration detected: {other.realm}")
        assert Realm.get(str(other.realm)).server_uuid == str(other.uuid)
        assert Realm.get(new).server_uuid == str(server.uuid)
        assert Realm.get(str(server.realm)).host == "new.example.org"
        assert Server.get(str(server.uuid)).last_realm_count_id == 4

    def test_a_server_claims_no_more_realms_than_it_may(self, known_server: NewServer) -> None:
        server = known_server(max_realms=2)
        new = [str(uuid4()) for _ in range(3)]

        def pushed_to() -> list[bool]:
            answered = report(server, realms=[realm_json(server, uuid=each) for each in new]).json["realms"]
            return [answered[each]["can_push"] for each in new]

        assert pushed_to() == [True, True, False]
        assert not list(Realm.batch_get(new[2:]))
        Server(str(server.uuid)).update([Server.max_realms.set(3)])
        assert pushed_to() == [True, True, True]
        assert Server.get(str(server.uuid)).realms_claimed == 3

    def test_reports_at_once_claim_no_more_either(
        self, known_server: NewServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The other report is handled once this one has read how many realms there are."""
        server, new = known_server(max_realms=1), str(uuid4())

        def then_full(server_uuid: UUID) -> Server | None:
            found = find_server(server_uuid)
            Server(str(server_uuid)).update([Server.realms_claimed.add(1)])
            return found

        monkeypatch.setattr(analytics, "find_server", then_full)
        assert report(server, realms=[realm_json(server, uuid=new)]).status == 503
        assert not list(Realm.batch_get([new]))
        assert Server.get(str(server.uuid)).realms_claimed == 1

    def test_a_realm_that_another_server_claims_meanwhile_is_not_counted(
        self, server: CallingServer, known_server: NewServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other, new = known_server(), str(uuid4())

        def then_claimed(server_uuid: UUID) -> Server | None:
            Realm(new, server_uuid=str(other.uuid), state=RealmState.ACTIVE.value, created_at=0).save()
            return find_server(server_uuid)

        monkeypatch.setattr(analytics, "find_server", then_claimed)
        assert report(server, realms=[realm_json(server, uuid=new)]).status == 503
        assert Realm.get(new).server_uuid == str(other.uuid)
        assert Server.get(str(server.uuid)).realms_claimed == 0

    def test_nothing_is_written_for_what_has_not_changed(self, server: CallingServer) -> None:
        assert report(server).status == 200
        row = Realm.get(str(server.realm))
        row.update([Realm.created_at.set(5)])
        assert report(server).status == 200
        assert (row.state, Realm.get(str(server.realm)).created_at) == (RealmState.ACTIVE, 5)

    def test_what_is_no_report_is_named(self, server: CallingServer) -> None:
        assert report(server, realms=[{"host": "a"}]).json["msg"] == "realms[0].uuid: Field required"

    @pytest.mark.parametrize(
        "changes", [{"realms": [{"uuid": "none"}]}, {"realms": {}}, {"realm_counts": [{"id": -1}]}, {"realm_counts": 1}]
    )
    def test_what_is_no_report(self, server: CallingServer, changes: dict[str, Any]) -> None:
        assert report(server, **changes).code == "BAD_REQUEST"


def test_no_key_is_that_of_an_unknown_server() -> None:
    assert not has_key(None, new_org_key(), 0)
