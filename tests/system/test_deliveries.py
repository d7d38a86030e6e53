"""A client asks what became of its pushes: from the lake, by S3's notice, to the API."""

import asyncio

import pytest

from local.device import Device, topic_of
from local.system import System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

TOPIC = topic_of("deliveries")
WAIT_S = 240
BETWEEN_S = 21
"""A client may look three times a minute."""


async def test_a_client_sees_that_its_push_was_delivered_and_how_long_it_took(system: System) -> None:
    alice, bob = Device("Alice, who writes"), Device("Bob, who asks")
    subscription = await system.register(bob, "fcm", "bob-" + "D" * 140, (alice.public_key, TOPIC))
    await system.store.inject(alice.statement(TOPIC, data=b"did it arrive?"))
    async with asyncio.timeout(WAIT_S), system.api_of(bob) as api:
        while not (found := (await api.list_deliveries(subscription))["deliveries"]):
            await asyncio.sleep(BETWEEN_S)
    assert [(one["network"], one["decision"], one["attempt"]) for one in found] == [("statements", "delivered", 1)]
    assert found[0]["latency_ms"] in range(WAIT_S * 1000)
