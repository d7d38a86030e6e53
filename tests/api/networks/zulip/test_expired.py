"""`push/e2ee/expired`: what a server's cron job asks for."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from api.networks.zulip import expired
from clarion.networks.zulip.servers import Realm, RealmState
from tests.zulip import CallingServer, ZulipDevice, android


def dead(server: CallingServer, *devices: ZulipDevice) -> None:
    tokens = {device.token for device in devices}
    for row in server.rows():
        if row.token in tokens:
            server.kill(row)


def test_ended_devices_are_named_as_their_profile_knows_them(server: CallingServer) -> None:
    shipped, proposed, alive = ZulipDevice(), android(), ZulipDevice()
    assert [server.register(device).status for device in (shipped, alive)] == [200, 200]
    name = server.register_account(proposed, 17)
    server.register_account(alive, 17)
    dead(server, shipped, proposed)
    assert server.expired().json == {
        "result": "success",
        "msg": "",
        "delete_token_ids": [shipped.token_id],
        "errors": [{"device_id": name, "code": "DEVICE_NOT_REGISTERED"}],
        "cursor": None,
    }


def test_one_that_is_revived_is_not_listed(server: CallingServer) -> None:
    device = ZulipDevice()
    assert server.register(device).status == 200
    dead(server, device)
    server.clock.pass_seconds(1)
    assert server.register(device).status == 200
    assert server.expired().json["delete_token_ids"] == []


def test_pages_follow_each_other_by_their_cursors(server: CallingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expired, "PAGE_DEVICES", 3)
    devices = [ZulipDevice() for _ in range(7)]
    assert {server.register(device).status for device in devices} == {200}
    dead(server, *devices[:5])
    found, cursor, pages = list[str](), dict[str, str](), 0
    while True:
        page = server.expired(**cursor).json
        found, pages = [*found, *page["delete_token_ids"]], pages + 1
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert sorted(found) == sorted(device.token_id for device in devices[:5])
    assert pages == 3


def test_neither_another_realms_nor_another_servers_are_listed(
    server: CallingServer, known_server: Callable[..., CallingServer]
) -> None:
    device, other, realm = ZulipDevice(), known_server(), str(uuid4())
    Realm(realm, server_uuid=str(server.uuid), state=RealmState.ACTIVE.value, created_at=0).save()
    assert server.register(device).status == 200
    dead(server, device)
    assert server.expired(realm_uuid=realm).json["delete_token_ids"] == []
    assert other.expired().json["delete_token_ids"] == []
    assert other.expired(realm_uuid=str(server.realm)).code == "REMOTE_REALM_SERVER_MISMATCH_ERROR"


@pytest.mark.parametrize("query", [{"cursor": "not one"}, {"realm_uuid": "none"}])
def test_what_is_no_page(server: CallingServer, query: dict[str, str]) -> None:
    reply = server.expired(**query)
    assert (reply.status, reply.code) == (400, "BAD_REQUEST")


def test_a_realm_has_to_be_named(server: CallingServer) -> None:
    assert server.send("GET", "/push/e2ee/expired").code == "REQUEST_VARIABLE_MISSING"
