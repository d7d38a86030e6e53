"""How many devices one token may have."""

import json
from collections.abc import Callable
from uuid import uuid4

import pytest

from api.networks.zulip import token_space
from clarion.networks.zulip.servers import Realm, RealmState
from tests.zulip import CallingServer, ZulipDevice


def new_realm(server: CallingServer) -> str:
    realm = str(uuid4())
    Realm(realm, server_uuid=str(server.uuid), state=RealmState.ACTIVE.value, created_at=0).save()
    return realm


def test_it_has_so_many_of_one_server(server: CallingServer, known_server: Callable[..., CallingServer]) -> None:
    device = ZulipDevice()
    for _ in range(token_space.MOST_OF_SERVER):
        assert server.register(device, realm_uuid=new_realm(server)).status == 200
    reply = server.register(device, realm_uuid=new_realm(server))
    assert (reply.status, reply.code) == (400, "BAD_REQUEST")
    assert "token" in reply.json["msg"]
    assert known_server().register(device).status == 200, "another server is refused"


def test_it_has_so_many_of_all_servers(
    server: CallingServer,
    known_server: Callable[..., CallingServer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(token_space, "MOST_DEVICES", 3)
    device = ZulipDevice()
    assert {known_server().register(device).status for _ in range(3)} == {200}
    capsys.readouterr()
    assert server.register(device).code == "BAD_REQUEST"
    assert json.loads(capsys.readouterr().out)["tokens_full"] == [1]
    assert server.rows() == []


def test_a_device_that_is_there_has_its_place_and_one_that_has_ended_has_none(
    server: CallingServer, known_server: Callable[..., CallingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_space, "MOST_DEVICES", 2)
    device, other = ZulipDevice(), known_server()
    assert [each.register(device).status for each in (server, other)] == [200, 200]
    server.clock.pass_seconds(1)
    assert server.register(device).status == 200
    server.kill(server.rows()[0])
    server.clock.pass_seconds(1)
    third = known_server()
    assert [each.register(device).status for each in (third, other, server)] == [200, 200, 400]
