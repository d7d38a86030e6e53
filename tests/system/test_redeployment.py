"""The live stack goes and comes back; what the data stack holds is as it was."""

import asyncio

import pytest

from infra.environments import EMULATOR
from local.device import Device, topic_of
from local.emulator import ASSEMBLY, take_down
from local.system import running

pytestmark = [pytest.mark.system, pytest.mark.asyncio]

CHAT = topic_of("a chat that outlasts a deployment")


async def test_who_was_registered_is_pushed_to_after_the_live_stack_was_removed_and_deployed_again() -> None:
    alice, bob = Device("Alice, a friend"), Device("Bob, who registers once")
    async with running("redeployment-test", lambda _: None) as system:
        await system.register(bob, "apns", "b0b2" * 16, (alice.public_key, CHAT))
        emulator = system.deployment.emulator
        assembly = emulator.folder / ASSEMBLY
        await asyncio.to_thread(system.ingest.close)
        await asyncio.to_thread(take_down, emulator, assembly)
        assert system.client("lambda").list_functions()["Functions"] == []
        left = {url.rpartition("/")[2] for url in system.client("sqs").list_queues()["QueueUrls"]}
        assert left == {f"{EMULATOR.prefix}deliveries", f"{EMULATOR.prefix}deliveries-dead"}

        again = await system.upgraded(assembly)
        hello = alice.statement(CHAT, data=b"hello again")
        await again.store.inject(hello)
        push = await again.push_of(hello)
        assert push.payload["statement"]["data"] == b"hello again".hex()
