"""Nodes that mean no good, beside an honest one: what the honest one shows keeps arriving as pushes."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import decode
from clarion.storage import SEEN_PREFIX
from local.device import Device, forge, topic_of
from local.system import PATIENCE, System, whole_lines
from tests.hostile import (
    Replaying,
    after_subscribing,
    answering,
    floods,
    hostile,
    names_itself,
    redirect,
    showing,
)

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

CHAT = topic_of("a chat that goes on")
LOG = "ingest-hostile.log"
LARGE = 900_000
ROUNDS = 6


class Crowd:
    """A hostile node for each kind of attack."""

    def __init__(self, alice: Device) -> None:
        mallory = Device("Mallory, who signs nothing")
        self.forged = forge(alice.statement(CHAT, data=os.urandom(LARGE)))
        unwanted = [forge(mallory.statement(CHAT, data=os.urandom(1000))) for _ in range(3_000)]
        self.replaying = Replaying()
        self.responses = {
            "InvalidStatus": redirect("ws://[::1"),
            "InvalidStatus, twice": redirect("ws://127.0.0.1:1/", "ws://127.0.0.1:2/"),
        }
        self.behaviours = {
            "an id is neither a string nor an integer": names_itself('{"id": ' * 100 + "1" + "}" * 100),
            "a frame is not JSON": names_itself("[" * 900 + "]" * 900),
            "a frame has too many values": after_subscribing("[" + "[]," * 5_000_000 + "[]]"),
            "a frame has too many values, for an id": names_itself("[" * 10_000 + "]" * 10_000),
            "too many small frames": floods(b"\x89\0" * 100_000),
            "too much of what it shows is malformed": after_subscribing(
                *(
                    showing(*(number.to_bytes(4) for number in range(start, start + 900)))
                    for start in range(0, 90_000, 900)
                )
            ),
            "forges what is large": after_subscribing(showing(self.forged)),
            "forges what nobody wants": after_subscribing(
                *(showing(*unwanted[start : start + 500]) for start in range(0, 3_000, 500))
            ),
            "replays on and on": self.replaying.behave,
        }

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[list[str]]:
        """Their URLs."""
        async with AsyncExitStack() as stack:
            nodes = [await stack.enter_async_context(answering(each)) for each in self.responses.values()]
            nodes += [await stack.enter_async_context(hostile(each)) for each in self.behaviours.values()]
            yield [node.url for node in nodes]


def reasons(system: System) -> set[str]:
    """Why ingest left nodes so far."""
    lines = whole_lines(system.deployment.emulator.folder / LOG)
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert not [line for line in logged if line.get("message") == "internal error"]
    return {line["reason"] for line in logged if line.get("message") == "node lost"}


async def test_an_honest_nodes_statements_keep_arriving_beside_hostile_nodes(system: System) -> None:
    alice, bob = Device("Alice, undisturbed"), Device("Bob, undisturbed")
    await system.register(bob, "apns", "f7" * 32, (alice.public_key, CHAT))
    crowd = Crowd(alice)
    expected = {reason.partition(",")[0] for reason in (*crowd.responses, *list(crowd.behaviours)[:6])}
    async with crowd.listening() as urls:
        nodes = json.loads(system.followed["nodes"]) | {STATEMENTS: [*urls, system.store.url]}
        first_start = {"state_prefix": f"{SEEN_PREFIX}beside-hostile-nodes/", "second_look_bytes": "500000"}
        await system.replace_ingest(system.ingesting(log=LOG, nodes=json.dumps(nodes), **first_start))
        await system.until_followed()
        try:
            for number in range(ROUNDS):
                raw = alice.statement(CHAT, data=f"message {number}".encode())
                sent = crowd.replaying.sent
                crowd.replaying.show(raw)
                async with asyncio.timeout(PATIENCE):
                    while crowd.replaying.sent == sent:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(0.2)  # so that it comes first
                await system.store.inject(raw)
                push = await system.push_of(raw)
                assert push.token == "f7" * 32
            async with asyncio.timeout(PATIENCE):
                while not expected <= reasons(system):
                    await asyncio.sleep(0.2)
        finally:
            await system.replace_ingest(system.ingesting())
    forged = decode(crowd.forged).hash.hex()
    async for events in system.lake.growing(3):
        assert not [event for event in events if event.get("envelope_id") == forged or event.get("location")]
