"""Periodic wake-ups, from EventBridge's event to the providers' stand-ins; and the end of what is never proven."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.networks import STATEMENTS
from clarion.proofs import PENDING_MS
from clarion.tables import Subscription, WakeUp, table_name
from clarion.wake_ups import PERIODS, expiry_slot, slot_of
from infra.environments import EMULATOR
from local.apns_trouble import troubled_token
from local.device import Device
from local.provider import InjectedFault, ReceivedPush, StandIn
from local.system import System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]

PERIOD = 1440
"""Minutes: within a test, its deployment's own schedule hardly wakes anybody."""
HOUR_MS = 3_600_000
WAIT_S = 120
DEAD = {
    Channel.APNS: troubled_token(InjectedFault(failure="Unregistered"), device=0xDEAD0001),
    Channel.FCM: "UNREGISTERED-wake-up" + "W" * 120,
}


async def subscribe(system: System, device: Device, channel: Channel, token: str) -> str:
    """A subscription that is woken once a day."""
    subscription = await system.register(device, channel, token)
    await change(system, subscription, wake_every_minutes={"N": str(PERIOD)})
    await put(system, WakeUp(PERIODS, str(PERIOD)))
    entry = WakeUp(slot_of(subscription, PERIOD), subscription, client_id=device.public_key)
    entry.network, entry.channel = STATEMENTS, channel.value
    await put(system, entry)
    return subscription


async def put(system: System, entry: WakeUp) -> None:
    name = table_name(EMULATOR.prefix, WakeUp)
    await asyncio.to_thread(system.client("dynamodb").put_item, TableName=name, Item=entry.serialize())


async def change(system: System, subscription: str, **values: dict[str, str]) -> None:
    await asyncio.to_thread(
        system.client("dynamodb").update_item,
        TableName=table_name(EMULATOR.prefix, Subscription),
        Key={"subscription_id": {"S": subscription}},
        AttributeUpdates={name: {"Value": value} for name, value in values.items()},
    )


async def status_of(system: System, device: Device, subscription: str) -> str:
    async with system.api_of(device) as api:
        return (await api.get_subscription(subscription))["status"]


async def is_to_be_woken(system: System, subscription: str) -> bool:
    key = {"slot": {"S": slot_of(subscription, PERIOD)}, "subscription_id": {"S": subscription}}
    name = table_name(EMULATOR.prefix, WakeUp)
    return "Item" in await asyncio.to_thread(system.client("dynamodb").get_item, TableName=name, Key=key)


async def call_schedule(system: System, minute: int) -> None:
    """As EventBridge does, and wait for it."""
    event = {"time": datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    invoke = system.client("lambda").invoke
    answer = await asyncio.to_thread(invoke, FunctionName=f"{EMULATOR.prefix}schedule", Payload=json.dumps(event))
    assert "FunctionError" not in answer, answer["Payload"].read()


def next_minute(subscription: str) -> int:
    """In which it is due."""
    now, phase = now_ms() // 60_000, int(slot_of(subscription, PERIOD).partition(":")[2])
    return now + (phase - now) % PERIOD


async def push_to(stand_in: StandIn, token: str) -> ReceivedPush:
    journal = stand_in.received
    async with asyncio.timeout(WAIT_S):
        while True:
            for push in journal:
                if push.token == token:
                    return push
            await journal.until(journal.count + 1)


async def test_an_iphone_that_is_due_gets_a_silent_push(system: System) -> None:
    token = "a4" * 32
    subscription = await subscribe(system, Device("Alice, who wakes up"), Channel.APNS, token)
    await call_schedule(system, next_minute(subscription))
    push = await push_to(system.apns, token)
    assert push.accepted
    assert (push.headers["apns-push-type"], push.headers["apns-priority"]) == ("background", "5")
    assert push.payload["aps"] == {"content-available": 1}
    assert push.payload["clarion"] == {"purpose": "wake_up", "subscription_id": subscription}


async def test_an_android_phone_that_is_due_gets_a_silent_push(system: System) -> None:
    token = "wake-up-" + "A" * 140
    subscription = await subscribe(system, Device("Bob, who wakes up"), Channel.FCM, token)
    await call_schedule(system, next_minute(subscription))
    push = await push_to(system.fcm, token)
    assert push.accepted
    message = push.payload["message"]
    assert "notification" not in message
    assert json.loads(message["data"]["clarion"]) == {"purpose": "wake_up", "subscription_id": subscription}


async def test_who_has_left_is_not_woken(system: System) -> None:
    bob, token, other = Device("Bob, who leaves"), "a5" * 32, "a6" * 32
    subscription = await subscribe(system, bob, Channel.APNS, token)
    async with system.api_of(bob) as api:
        await api.remove_subscriptions(subscription)
    assert not await is_to_be_woken(system, subscription)
    await call_schedule(system, next_minute(subscription))
    another = await subscribe(system, bob, Channel.APNS, other)
    await call_schedule(system, next_minute(another))
    await push_to(system.apns, other)
    assert token not in {push.token for push in system.apns.received}


async def test_a_period_that_nobody_has_is_looked_for_no_more(system: System) -> None:
    # Not 20 minutes, which SimpleX's agent of the story has.
    period, tomorrow = 21, now_ms() // 60_000 // 1440 * 1440 + 1440
    await put(system, WakeUp(PERIODS, str(period), minute=0))
    await call_schedule(system, tomorrow + period)
    key = {"slot": {"S": PERIODS}, "subscription_id": {"S": str(period)}}
    name = table_name(EMULATOR.prefix, WakeUp)
    assert "Item" not in await asyncio.to_thread(system.client("dynamodb").get_item, TableName=name, Key=key)


@pytest.mark.parametrize("channel", [Channel.APNS, Channel.FCM])
async def test_whose_token_is_dead_is_woken_no_more(system: System, channel: Channel) -> None:
    device = Device(f"Carol, away from {channel}")
    subscription = await subscribe(system, device, channel, DEAD[channel])
    await call_schedule(system, next_minute(subscription))

    async with asyncio.timeout(WAIT_S):
        while await status_of(system, device, subscription) != "invalid":
            await asyncio.sleep(1)
    assert not await is_to_be_woken(system, subscription)


async def test_what_is_not_proven_for_a_day_expires(system: System) -> None:
    device = Device("Dave, who proves nothing")
    subscription = await system.register(device, "apns", "a8" * 32)
    made_at = now_ms() - PENDING_MS - HOUR_MS
    await change(system, subscription, status={"S": "pending"}, created_at={"N": str(made_at)})
    await put(system, WakeUp(expiry_slot((made_at + PENDING_MS) // HOUR_MS), subscription))
    await call_schedule(system, (now_ms() // HOUR_MS + 1) * 60)
    assert await status_of(system, device, subscription) == "expired"
