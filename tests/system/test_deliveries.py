"""A client asks what became of its pushes: from the lake, by S3's notice, to the API."""

import asyncio
from uuid import UUID

import pytest

from clarion.storage import DELIVERIES_PREFIX
from clarion_client.models import DeliveryShape
from local.device import Device, topic_of
from local.system import System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

TOPIC = topic_of("deliveries")
WAIT_S = 240
POLL_S = 0.1


async def deliveries_of(system: System, device: Device, subscription: str, raw: bytes) -> list[DeliveryShape]:
    """What a client is answered once this statement's push is indexed: it may look but three times a minute."""
    known = await asyncio.to_thread(indexes, system)
    await system.store.inject(raw)
    async with asyncio.timeout(WAIT_S), system.api_of(device) as api:
        while not await asyncio.to_thread(any_has, system, known, subscription):
            await asyncio.sleep(POLL_S)
        return (await api.list_deliveries(subscription))["deliveries"]


def indexes(system: System) -> set[str]:
    """Their keys."""
    pages = system.client("s3").get_paginator("list_objects_v2")
    found = pages.paginate(Bucket=system.deployment.outputs.lake_bucket, Prefix=DELIVERIES_PREFIX)
    return {each["Key"] for page in found for each in page.get("Contents", [])}


def any_has(system: System, known: set[str], subscription: str) -> bool:
    """Whether an index that is not `known` has something of the subscription."""
    s3, bucket = system.client("s3"), system.deployment.outputs.lake_bucket
    new = (s3.get_object(Bucket=bucket, Key=key)["Body"].read() for key in indexes(system) - known)
    return any(UUID(subscription).bytes in index for index in new)


async def test_a_client_sees_that_its_push_was_delivered_and_how_long_it_took(system: System) -> None:
    alice, bob = Device("Alice, who writes"), Device("Bob, who asks")
    subscription = await system.register(bob, "fcm", "bob-" + "D" * 140, (alice.public_key, TOPIC))

    found = await deliveries_of(system, bob, subscription, alice.statement(TOPIC, data=b"did it arrive?"))

    assert [(one["network"], one["decision"], one["attempt"]) for one in found] == [("statements", "delivered", 1)]
    assert found[0]["latency_ms"] in range(WAIT_S * 1000)
