"""How often a server may call, and what it costs to know."""

from collections import Counter
from collections.abc import Callable

import pytest

from api.networks.zulip import call_rate
from api.networks.zulip.allowances import SHARE
from tests.zulip import CallingServer, Clock, Reply, ZulipDevice

CALLS = 2 * SHARE


@pytest.fixture
def server(known_server: Callable[..., CallingServer], monkeypatch: pytest.MonkeyPatch) -> CallingServer:
    monkeypatch.setattr(call_rate, "CALLS_PER_MINUTE", CALLS)
    return known_server()


def status_of(server: CallingServer) -> Reply:
    return server.send("GET", "/server/analytics/status")


def test_a_call_too_many_waits_for_the_next_minute(server: CallingServer, clock: Clock) -> None:
    clock.now -= clock.now % 60_000
    # What this instance counts by itself comes on top.
    assert {status_of(server).status for _ in range(CALLS + CALLS // SHARE)} == {200}
    reply = status_of(server)
    assert (reply.status, reply.code) == (429, "RATE_LIMIT_HIT")
    assert int(reply.headers["Retry-After"]) == reply.json["retry-after"] == 60
    clock.pass_seconds(60)
    assert status_of(server).status == 200


def test_no_kind_of_call_uses_up_anothers(server: CallingServer) -> None:
    while status_of(server).status == 200:
        pass
    assert server.post_form("/push/register", {}).code == "LEGACY_PUSH_UNSUPPORTED"
    assert server.notify().status == server.expired().status == 200


def test_unencrypted_pushes_come_as_often_as_encrypted_ones(server: CallingServer) -> None:
    """One that is refused would cost its message the encrypted push."""
    assert {server.post_json("/push/notify", {}).status for _ in range(2 * CALLS)} == {200}


def test_a_page_of_what_has_ended_counts_as_ten(server: CallingServer) -> None:
    assert [server.expired().status for _ in range(3)] == [200, 200, 429]


def test_a_registration_too_many_is_one_that_its_server_tries_again(server: CallingServer, clock: Clock) -> None:
    device = ZulipDevice()
    for _ in range(CALLS + CALLS // SHARE):
        assert server.register(device).status == 200
    reply = server.register(device)
    assert (reply.status, reply.code) == (503, "SERVER_NOT_READY")
    assert reply.json["retry-after"] > 0
    clock.pass_seconds(60)
    assert server.register(device).status == 200


def test_few_calls_cost_no_write(server: CallingServer, requests: Counter[str]) -> None:
    for _ in range(CALLS // SHARE):
        assert status_of(server).status == 200
    assert requests["UpdateItem"] == 0
    assert status_of(server).status == 200
    assert requests["UpdateItem"] == 1


def test_a_notify_counts_its_pushes_and_itself_by_one_write(server: CallingServer, requests: Counter[str]) -> None:
    device = ZulipDevice()
    assert server.register(device).status == 200
    requests.clear()
    assert server.notify(device.push()).status == 200
    assert requests["UpdateItem"] == 1
