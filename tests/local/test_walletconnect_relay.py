import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from itertools import count
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from local.tls import Localhost
from local.walletconnect.codec import did_key, sign
from local.walletconnect.mailbox import LONGEST_TTL_S, PAGE
from local.walletconnect.relay import Relay
from local.walletconnect.rpc import BATCH
from tests.standins import Clock

TOPIC, OTHER_TOPIC = "0a" * 32, "0b" * 32
SOON = 0.05


class SocketClient:
    """Of the relay, by WebSocket; what is shown and what is answered are kept apart."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._numbers = count(1)
        self._shown: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        await self.socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        while (message := json.loads(await self.socket.recv())).get("id") != number:
            self._shown.append(message)
        return message

    async def result(self, method: str, **params: Any) -> Any:
        return (await self.call(method, **params))["result"]

    async def publish(self, topic: str = TOPIC, message: str = "bWVzc2FnZQ==", ttl: int = 300) -> None:
        assert await self.result("irn_publish", topic=topic, message=message, ttl=ttl, tag=4000) is True

    async def shown(self) -> dict[str, Any]:
        message = self._shown.pop(0) if self._shown else json.loads(await self.socket.recv())
        assert message["method"] == "irn_subscription"
        return dict(message)

    async def acknowledge(self, shown: dict[str, Any]) -> None:
        await self.socket.send(json.dumps({"id": shown["id"], "jsonrpc": "2.0", "result": True}))


def credentials(relay: Relay, key: Ed25519PrivateKey | None = None, **others: Any) -> str:
    key = key or Ed25519PrivateKey.generate()
    now = int(relay.now())
    claims = {"iss": did_key(key.public_key()), "sub": "00" * 32, "aud": relay.url, "iat": now, "exp": now + 86_400}
    return urlencode({"auth": sign({**claims, **others}, key), "projectId": "1" * 32})


@asynccontextmanager
async def client_of(relay: Relay, localhost: Localhost, **others: Any) -> AsyncIterator[SocketClient]:
    url = f"{relay.url}/?{credentials(relay, **others)}"
    async with connect(url, ssl=localhost.client_context(), compression=None) as socket:
        yield SocketClient(socket)


def http_of(localhost: Localhost) -> httpx.AsyncClient:
    return httpx.AsyncClient(verify=localhost.client_context(), trust_env=False, timeout=60)


def publishing(message: str = "bWVzc2FnZQ==", **others: Any) -> dict[str, Any]:
    params = {"topic": TOPIC, "message": message, "ttl": 300, "tag": 4002, "prompt": True, **others}
    return {"id": 1, "jsonrpc": "2.0", "method": "irn_publish", "params": params}


@pytest.fixture
async def relay(localhost: Localhost) -> AsyncIterator[Relay]:
    async with Relay(localhost) as relay:
        yield relay


async def test_a_subscriber_is_shown_what_others_publish_on_its_topic(relay: Relay, localhost: Localhost) -> None:
    async with client_of(relay, localhost) as wallet, client_of(relay, localhost) as server:
        subscription = await wallet.result("irn_subscribe", topic=TOPIC)
        await server.publish(OTHER_TOPIC, "not for the wallet")
        await server.publish(TOPIC, "for the wallet")

        shown = (await wallet.shown())["params"]

    assert shown["id"] == subscription
    assert shown["data"].pop("publishedAt") == pytest.approx(1000 * time.time(), abs=60_000)
    assert shown["data"] == {"topic": TOPIC, "message": "for the wallet", "tag": 4000}


async def test_nobody_is_shown_what_they_publish_on_the_same_connection(relay: Relay, localhost: Localhost) -> None:
    async with client_of(relay, localhost) as wallet, client_of(relay, localhost) as server:
        await wallet.result("irn_subscribe", topic=TOPIC)
        await wallet.publish(TOPIC, "its own")
        await server.publish(TOPIC, "the server's")

        assert (await wallet.shown())["params"]["data"]["message"] == "the server's"


async def test_what_is_published_by_http_is_shown_even_to_the_same_client(relay: Relay, localhost: Localhost) -> None:
    key = Ed25519PrivateKey.generate()
    async with client_of(relay, localhost, key=key) as server, http_of(localhost) as http:
        await server.result("irn_subscribe", topic=TOPIC)
        answer = await http.post(f"{relay.rpc_url}?{credentials(relay, key)}", json=publishing("an echo"))
        again = await http.post(f"{relay.rpc_url}?{credentials(relay, key)}", json=publishing("another"))

        assert answer.json() == again.json() == {"id": 1, "jsonrpc": "2.0", "result": True}
        assert [(await server.shown())["params"]["data"]["message"] for _ in range(2)] == ["an echo", "another"]
    assert [(message.tag, message.prompt) for message in relay.published] == [(4002, True)] * 2


async def test_a_message_waits_for_who_subscribes_and_is_shown_to_the_next_again(
    relay: Relay, localhost: Localhost
) -> None:
    async with client_of(relay, localhost) as server:
        await server.publish(TOPIC, "kept")
        for _ in range(2):
            async with client_of(relay, localhost) as wallet:
                await wallet.result("irn_batchSubscribe", topics=[OTHER_TOPIC, TOPIC])
                shown = await wallet.shown()
                assert shown["params"]["data"]["message"] == "kept"
                await wallet.acknowledge(shown)


async def test_a_message_is_gone_once_its_time_to_live_has_passed(localhost: Localhost, clock: Clock) -> None:
    async with Relay(localhost, now=clock) as relay, client_of(relay, localhost) as server:
        await server.publish(TOPIC, "short-lived", ttl=30)
        await server.publish(TOPIC, "long-lived", ttl=300)
        clock.advance(30)

        async with client_of(relay, localhost) as wallet:
            await wallet.result("irn_subscribe", topic=TOPIC)
            assert (await wallet.shown())["params"]["data"]["message"] == "long-lived"


async def test_what_is_not_acknowledged_is_shown_again(localhost: Localhost) -> None:
    async with Relay(localhost, acknowledge=SOON) as relay, client_of(relay, localhost) as wallet:
        await wallet.result("irn_subscribe", topic=TOPIC)
        async with client_of(relay, localhost) as server:
            await server.publish()
        first, again = await wallet.shown(), await wallet.shown()
        assert first == again
        assert [message.topic for message in relay.unacknowledged] == [TOPIC]

        await wallet.acknowledge(again)
        while relay.unacknowledged:
            await asyncio.sleep(SOON)


async def test_messages_are_fetched_once_a_page_at_a_time(relay: Relay, localhost: Localhost) -> None:
    async with client_of(relay, localhost) as server, client_of(relay, localhost) as wallet:
        for number in range(PAGE + 1):
            await server.publish(TOPIC, f"message {number}")

        pages = [await wallet.result("irn_batchFetchMessages", topics=[TOPIC]) for _ in range(3)]

    assert [(len(page["messages"]), page["hasMore"]) for page in pages] == [(PAGE, True), (1, False), (0, False)]


async def test_who_unsubscribes_is_shown_nothing_more(relay: Relay, localhost: Localhost) -> None:
    async with client_of(relay, localhost) as wallet, client_of(relay, localhost) as server:
        subscription = await wallet.result("irn_subscribe", topic=TOPIC)
        await wallet.result("irn_subscribe", topic=OTHER_TOPIC)
        assert await wallet.result("irn_unsubscribe", topic=TOPIC, id=subscription) is True
        await server.publish(TOPIC, "nobody listens")
        await server.publish(OTHER_TOPIC, "somebody does")

        assert (await wallet.shown())["params"]["data"]["message"] == "somebody does"
        assert relay.topics == {OTHER_TOPIC}


@pytest.mark.parametrize(
    "request_",
    [
        publishing(topic="0a"),
        publishing(message=""),
        publishing(ttl=0),
        publishing(ttl=LONGEST_TTL_S + 1),
        publishing(tag="4002"),
        {**publishing(), "method": "irn_batchPublish", "params": {"messages": []}},
        {**publishing(), "method": "irn_batchFetchMessages", "params": {"topics": [TOPIC] * (BATCH + 1)}},
    ],
)
async def test_a_request_that_makes_no_sense_is_an_error_and_publishes_nothing(
    relay: Relay, localhost: Localhost, request_: dict[str, Any]
) -> None:
    async with http_of(localhost) as http:
        answer = await http.post(f"{relay.rpc_url}?{credentials(relay)}", json=request_)

    assert answer.json()["error"]["code"] == -32602
    assert relay.published == []


async def test_nobody_subscribes_by_http(relay: Relay, localhost: Localhost) -> None:
    request = {"id": "1", "jsonrpc": "2.0", "method": "irn_subscribe", "params": {"topic": TOPIC}}
    async with http_of(localhost) as http:
        answer = await http.post(f"{relay.rpc_url}?{credentials(relay)}", json=request)

    assert answer.json() == {"id": "1", "jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}}


@pytest.mark.parametrize(
    "claims", [{"aud": "wss://relay.example.com"}, {"exp": 1}, {"iat": 1 << 33}, {"iss": "did:key:z6"}]
)
async def test_a_client_whose_jwt_is_not_good_is_refused(
    relay: Relay, localhost: Localhost, claims: dict[str, Any]
) -> None:
    with pytest.raises(InvalidStatus, match="401"):
        async with client_of(relay, localhost, **claims):
            pytest.fail("the relay let a stranger in")
    async with http_of(localhost) as http:
        answer = await http.post(f"{relay.rpc_url}?{credentials(relay, **claims)}", json=publishing())

    assert answer.status_code == HTTPStatus.UNAUTHORIZED


async def test_a_jwt_that_another_key_signed_is_refused(relay: Relay, localhost: Localhost) -> None:
    issuer = did_key(Ed25519PrivateKey.generate().public_key())
    with pytest.raises(InvalidStatus, match="401"):
        async with client_of(relay, localhost, iss=issuer):
            pytest.fail("the relay let a stranger in")


async def test_requests_by_http_meet_the_failures_that_are_set(relay: Relay, localhost: Localhost) -> None:
    relay.failures.extend([HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY])
    url = f"{relay.rpc_url}?{credentials(relay)}"
    async with http_of(localhost) as http:
        statuses = [(await http.post(url, json=publishing())).status_code for _ in range(3)]

    assert statuses == [429, 502, 200]
    assert len(relay.published) == 1


async def test_a_relay_ends_connections_refuses_new_ones_and_accepts_them_again(
    relay: Relay, localhost: Localhost
) -> None:
    async with client_of(relay, localhost) as wallet:
        await wallet.result("irn_subscribe", topic=TOPIC)
        await relay.until_watched()
        relay.refuse()
        with pytest.raises(ConnectionClosed):
            await wallet.socket.recv()
    with pytest.raises(InvalidStatus, match="503"):
        async with client_of(relay, localhost):
            pytest.fail("the relay let somebody in")

    relay.accept()
    async with client_of(relay, localhost) as wallet:
        await wallet.result("irn_subscribe", topic=TOPIC)
        assert relay.subscribers == 1


async def test_a_relay_that_stalls_shows_what_has_waited_once_it_resumes(relay: Relay, localhost: Localhost) -> None:
    async with client_of(relay, localhost) as wallet, http_of(localhost) as http:
        await wallet.result("irn_subscribe", topic=TOPIC)
        relay.stall()
        await http.post(f"{relay.rpc_url}?{credentials(relay)}", json=publishing("late"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wallet.socket.recv(), SOON)

        relay.resume()
        assert (await wallet.shown())["params"]["data"]["message"] == "late"


async def test_a_relay_that_comes_back_has_its_port_and_its_messages(relay: Relay, localhost: Localhost) -> None:
    url = relay.url
    async with client_of(relay, localhost) as server:
        await server.publish(TOPIC, "kept")
    await relay.stop()
    with pytest.raises(OSError):  # noqa: PT011 - the system's words for a refused connection differ
        async with client_of(relay, localhost):
            pytest.fail("nobody should listen")

    await relay.start()
    assert relay.url == url
    async with client_of(relay, localhost) as wallet:
        await wallet.result("irn_subscribe", topic=TOPIC)
        assert (await wallet.shown())["params"]["data"]["message"] == "kept"


async def test_only_tls_by_the_authority_of_its_own_is_spoken(relay: Relay) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        async with connect(relay.url, ssl=ssl.create_default_context()):
            pytest.fail("an unknown authority was trusted")
