"""Firehose refuses events for a while: pushes go on, and what they left behind reaches the lake by the queue."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from infra.environments import EMULATOR
from local.device import Device, topic_of
from local.system import System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

TOPIC = topic_of("late events")
OUTAGE = "outage"
WAIT_S = 90
DENIED = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": {"Effect": "Deny", "Action": "firehose:PutRecordBatch", "Resource": "*"},
    }
)


@asynccontextmanager
async def refused_by_firehose(system: System, *components: str) -> AsyncIterator[None]:
    """What these components send it, by the construct's name of each."""
    iam = system.client("iam")
    named = re.compile(rf"{EMULATOR.prefix}stack-({'|'.join(components)})Role[0-9A-F]{{8}}-")
    pages = await asyncio.to_thread(list, iam.get_paginator("list_roles").paginate())
    roles = [role["RoleName"] for page in pages for role in page["Roles"] if named.match(role["RoleName"])]
    assert len(roles) == len(components)
    for role in roles:
        await asyncio.to_thread(iam.put_role_policy, RoleName=role, PolicyName=OUTAGE, PolicyDocument=DENIED)
    try:
        yield
    finally:
        for role in roles:
            await asyncio.to_thread(iam.delete_role_policy, RoleName=role, PolicyName=OUTAGE)


async def test_a_push_arrives_while_firehose_refuses_its_events_and_the_lake_has_them_all_the_same(
    system: System,
) -> None:
    alice, bob = Device("Alice, during an outage"), Device("Bob, who hears her all the same")
    await system.register(bob, "apns", "a7" * 32, (alice.public_key, TOPIC))
    raw = alice.statement(TOPIC, data=b"during an outage")

    async with refused_by_firehose(system, "Match", "Apns", "Ingest"):
        await system.store.inject(raw)
        push = await system.push_of(raw)
        await recorded(system, push.headers["apns-collapse-id"])


async def recorded(system: System, envelope_id: str) -> None:
    """Wait until the lake has all kinds of events about it."""
    async for events in system.lake.growing(WAIT_S):
        decided = [event for event in events if event.get("envelope_id") == envelope_id]
        observed = {event["receipt"] for event in events if event["event"] == "observed"}
        kinds = {event["event"] for event in decided}
        if kinds == {"envelope", "notification", "push"} and observed.issuperset(event["receipt"] for event in decided):
            return
    raise AssertionError("the lake does not know of it")
