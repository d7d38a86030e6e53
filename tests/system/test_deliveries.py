"""A client asks what became of its pushes: from the lake, by S3's notice, to the API."""

import asyncio

import pytest

from clarion_client.models import DeliveryShape
from local.device import Device, topic_of
from local.system import System, messages_in

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

TOPIC = topic_of("deliveries")
WAIT_S = 240
POLL_S = 0.1
BETWEEN_S = 21
"""A client may look three times a minute."""


async def deliveries_of(system: System, device: Device, subscription: str) -> list[DeliveryShape]:
    """What a client is answered, once there is anything: it asks when the lake has a push, and that is indexed."""
    async with asyncio.timeout(WAIT_S), system.api_of(device) as api:
        await until_pushed(system, subscription)
        await until_indexed(system)
        while not (found := (await api.list_deliveries(subscription))["deliveries"]):
            await asyncio.sleep(BETWEEN_S)
    return found


async def until_pushed(system: System, subscription: str) -> None:
    async for events in system.lake.growing(WAIT_S):
        if any(event["event"] == "push" and event["subscription_id"] == subscription for event in events):
            return


async def until_indexed(system: System) -> None:
    """What the lake has."""
    queue = system.deployment.outputs.queue_url("deliveries")
    while await asyncio.to_thread(messages_in, system.client("sqs"), queue):
        await asyncio.sleep(POLL_S)


async def test_a_client_sees_that_its_push_was_delivered_and_how_long_it_took(system: System) -> None:
    alice, bob = Device("Alice, who writes"), Device("Bob, who asks")
    subscription = await system.register(bob, "fcm", "bob-" + "D" * 140, (alice.public_key, TOPIC))
    await system.store.inject(alice.statement(TOPIC, data=b"did it arrive?"))

    found = await deliveries_of(system, bob, subscription)

    assert [(one["network"], one["decision"], one["attempt"]) for one in found] == [("statements", "delivered", 1)]
    assert found[0]["latency_ms"] in range(WAIT_S * 1000)
