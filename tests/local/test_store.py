import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from local.device import Device, Publisher, forge, topic_of
from local.store import StatementStore

ALICE = Device("Alice")
CHAT = topic_of("chat")
CALLS = topic_of("calls")
CHANNEL = topic_of("channel")
VECTORS = json.loads((Path(__file__).parents[1] / "data" / "statement-store.json").read_text())["vectors"]


class Client:
    """A JSON-RPC client that keeps notifications and answers apart."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._waiting: list[dict[str, Any]] = []

    async def call(self, method: str, *params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self._socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        while (message := await self._receive()).get("id") != number:
            self._waiting.append(message)
        return message

    async def send(self, text: str) -> dict[str, Any]:
        await self._socket.send(text)
        return await self._receive()

    async def result(self, method: str, *params: Any) -> Any:
        return (await self.call(method, *params))["result"]

    async def event(self) -> dict[str, Any]:
        message = self._waiting.pop(0) if self._waiting else await self._receive()
        assert message["method"] == "statement_statement"
        assert message["params"]["result"]["event"] == "newStatements"
        data: dict[str, Any] = message["params"]["result"]["data"]
        return data

    async def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self._socket.recv())
        return message


@asynccontextmanager
async def client_of(store: StatementStore) -> AsyncIterator[Client]:
    async with connect(store.url, max_size=16 << 20, compression=None) as socket:
        yield Client(socket)


@pytest.fixture
async def store() -> AsyncIterator[StatementStore]:
    async with StatementStore() as store:
        yield store


@pytest.fixture
async def client(store: StatementStore) -> AsyncIterator[Client]:
    async with client_of(store) as client:
        yield client


def hexed(*statements: bytes) -> list[str]:
    return [f"0x{statement.hex()}" for statement in statements]


async def test_it_names_its_methods(client: Client) -> None:
    methods = (await client.result("rpc_methods"))["methods"]
    assert {"statement_submit", "statement_subscribeStatement", "statement_unsubscribeStatement"} <= set(methods)


async def test_a_new_statement_is_accepted_once_and_known_after(client: Client) -> None:
    [statement] = hexed(ALICE.statement(CHAT, data=b"hello"))
    assert await client.result("statement_submit", statement) == {"status": "new"}
    assert await client.result("statement_submit", statement) == {"status": "known"}


async def test_what_is_no_statement_is_an_error_of_the_call(client: Client) -> None:
    assert (await client.call("statement_submit", "0x00ff"))["error"]["code"] == 7001


@pytest.mark.parametrize("params", [[], ["00"], ["0xzz"], [7], ["0x00", "0x00"]])
async def test_parameters_of_the_wrong_shape_are_refused(client: Client, params: list[Any]) -> None:
    assert (await client.call("statement_submit", *params))["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", -32700),
        ("[]", -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"rpc_methods","params":{}}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"author_submitExtrinsic"}', -32601),
    ],
)
async def test_what_is_no_request_or_no_method_is_refused(client: Client, text: str, code: int) -> None:
    assert (await client.send(text))["error"]["code"] == code


async def test_a_statement_without_proof_is_invalid(client: Client) -> None:
    unsigned = next(vector["statement"] for vector in VECTORS if vector["name"] == "no-proof")
    assert await client.result("statement_submit", unsigned) == {"status": "invalid", "reason": "noProof"}


async def test_a_forged_signature_is_invalid(client: Client) -> None:
    [forged] = hexed(forge(ALICE.statement(CHAT, data=b"hello")))
    assert await client.result("statement_submit", forged) == {"status": "invalid", "reason": "badProof"}


@pytest.mark.parametrize("kind", ["sr25519", "ed25519", "ecdsa"])
async def test_each_kind_of_proof_is_verified(kind: str) -> None:
    vectors = [v for v in VECTORS if v.get("proof_type") == kind and v["expect"]["decode"] and v["expect"]["canonical"]]
    assert vectors
    async with StatementStore(now=lambda: 0.0) as store:
        for vector in vectors:
            verdict = await store.submit(bytes.fromhex(vector["statement"][2:]))
            valid = vector["expect"]["signature"]
            assert (verdict.reason != "badProof") == valid, vector["name"]


async def test_an_expired_statement_is_invalid(clock: Any) -> None:
    async with StatementStore(now=clock) as store:
        late = ALICE.statement(CHAT, data=b"late", expires_at=int(clock()))
        assert await store.submit(late) == ("invalid", "alreadyExpired")


async def test_a_statement_is_forgotten_when_it_expires(clock: Any) -> None:
    async with StatementStore(now=clock) as store, client_of(store) as client:
        await store.submit(ALICE.statement(CHAT, data=b"brief", expires_at=int(clock()) + 10))
        clock.advance(10)
        await client.call("statement_subscribeStatement", "any")
        assert await client.event() == {"statements": [], "remaining": 0}


async def test_a_statement_too_long_for_the_network_is_invalid(store: StatementStore) -> None:
    assert await store.submit(bytes(1_048_576)) == ("invalid", "encodingTooLarge")


async def test_on_a_channel_only_a_higher_expiry_replaces(store: StatementStore, client: Client) -> None:
    first, second, third = (ALICE.statement(CHAT, data=data, channel=CHANNEL) for data in (b"1", b"2", b"3"))
    assert await store.submit(second) == ("new", None)
    assert await store.submit(first) == ("rejected", "channelPriorityTooLow")
    assert await store.submit(third) == ("new", None)
    await client.call("statement_subscribeStatement", "any")
    assert await client.event() == {"statements": hexed(third), "remaining": 0}


async def test_channels_of_two_signers_are_apart(store: StatementStore) -> None:
    for device in (ALICE, Device("Bob")):
        assert (await store.submit(device.statement(CHAT, data=b"", channel=CHANNEL))).status == "new"


async def test_with_nothing_to_replay_one_empty_batch_says_so(client: Client) -> None:
    await client.call("statement_subscribeStatement", "any")
    assert await client.event() == {"statements": [], "remaining": 0}


async def test_standing_statements_are_replayed_and_live_ones_have_no_remaining(
    store: StatementStore, client: Client
) -> None:
    standing, live = ALICE.statement(CHAT, data=b"before"), ALICE.statement(CHAT, data=b"after")
    await store.submit(standing)
    await client.call("statement_subscribeStatement", "any")
    assert await client.event() == {"statements": hexed(standing), "remaining": 0}
    await store.submit(live)
    assert await client.event() == {"statements": hexed(live)}


async def test_a_long_replay_comes_in_batches_of_four_mebibytes_that_count_down(
    store: StatementStore, client: Client
) -> None:
    standing = [ALICE.statement(CHAT, data=bytes(900_000)) for _ in range(5)]
    for statement in standing:
        await store.submit(statement)
    await client.call("statement_subscribeStatement", "any")
    events = [await client.event() for _ in range(3)]
    assert [event["remaining"] for event in events] == [3, 1, 0]
    assert [statement for event in events for statement in event["statements"]] == hexed(*standing)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("any", ["both", "chat", "none"]),
        ({"matchAll": [CHAT, CALLS]}, ["both"]),
        ({"matchAll": []}, ["both", "chat", "none"]),
        ({"matchAny": [CALLS, CHAT]}, ["both", "chat"]),
        ({"matchAny": []}, []),
    ],
)
async def test_a_filter_holds_for_replay_and_live(
    store: StatementStore, client: Client, wanted: Any, expected: list[str]
) -> None:
    given = wanted if isinstance(wanted, str) else {kind: hexed(*topics) for kind, topics in wanted.items()}
    topics = {"both": (CHAT, CALLS), "chat": (CHAT,), "none": ()}
    statements = {name: ALICE.statement(*topics[name], data=b"") for name in topics}
    for name in topics:
        await store.submit(statements[name])
    await client.call("statement_subscribeStatement", given)
    assert (await client.event())["statements"] == hexed(*(statements[name] for name in expected))
    for name in topics:
        await store.inject(statements[name])
    for name in expected:
        assert await client.event() == {"statements": hexed(statements[name])}


@pytest.mark.parametrize(
    "given",
    [
        "all",
        {},
        {"matchAll": hexed(CHAT), "matchAny": hexed(CHAT)},
        {"matchAny": hexed(CHAT[1:])},
        {"matchAll": hexed(CHAT) * 5},
        {"matchAny": hexed(CHAT) * 129},
    ],
)
async def test_a_filter_that_is_none_is_refused(client: Client, given: Any) -> None:
    assert (await client.call("statement_subscribeStatement", given))["error"]["code"] == -32602


async def test_after_unsubscribing_nothing_comes(store: StatementStore, client: Client) -> None:
    name = await client.result("statement_subscribeStatement", "any")
    assert await client.result("statement_unsubscribeStatement", name) is True
    assert await client.result("statement_unsubscribeStatement", name) is False
    assert store.subscribers == 0


async def test_a_subscription_ends_with_its_connection(store: StatementStore) -> None:
    async with client_of(store) as client:
        await client.call("statement_subscribeStatement", "any")
    async with client_of(store) as client:
        await client.call("rpc_methods")
    assert store.subscribers == 0


async def test_a_node_that_relays_unverified_statements_passes_forged_ones_on() -> None:
    async with StatementStore(relay_unverified=True) as store, client_of(store) as client:
        forged = forge(ALICE.statement(CHAT, data=b"from Alice, honestly"))
        await client.call("statement_subscribeStatement", "any")
        await client.event()
        async with Publisher(store.url) as publisher:
            assert (await publisher.submit(forged))["result"] == {"status": "new"}
        assert await client.event() == {"statements": hexed(forged)}


async def test_injected_bytes_are_announced_unchecked_and_each_time(store: StatementStore, client: Client) -> None:
    await client.call("statement_subscribeStatement", "any")
    await client.event()
    async with Publisher(store.url) as publisher:
        for _ in range(2):
            await publisher.inject(b"no statement")
            assert await client.event() == {"statements": hexed(b"no statement")}


async def test_a_subscriber_that_reads_keeps_up_with_a_burst(store: StatementStore, client: Client) -> None:
    await client.call("statement_subscribeStatement", "any")
    await client.event()
    burst = [ALICE.statement(CHAT, data=b"") for _ in range(1000)]
    for statement in burst:
        await store.inject(statement)
    for statement in burst:
        assert await client.event() == {"statements": hexed(statement)}


async def test_a_subscriber_that_does_not_read_is_dropped_in_silence(store: StatementStore) -> None:
    async with client_of(store) as slow, client_of(store) as brisk:
        await slow.call("statement_subscribeStatement", "any")
        await brisk.call("statement_subscribeStatement", {"matchAny": hexed(CALLS)})
        for _ in range(400):  # more than sockets buffer
            await store.inject(ALICE.statement(CHAT, data=bytes(100_000)))
        assert store.subscribers == 1
        assert "result" in await slow.call("rpc_methods")


def test_as_a_program_it_prints_its_url_and_ends_when_told() -> None:
    with subprocess.Popen([sys.executable, "-m", "local.store"], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline().startswith("ws://127.0.0.1:")
        program.terminate()
        assert program.wait(60) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="a parent's end is seen on Linux only")
def test_as_a_program_it_ends_with_its_parent() -> None:
    starter = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'local.store'])"
    with subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        assert parent.stdout
        parent.stdout.readline()
        parent.kill()
        assert parent.stdout.read() == b""  # the end of the pipe: the store, which shares it, is gone
