"""The version before this one is deployed, statements flow, and this one is deployed over it: nothing may get lost."""

import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from clarion.networks.statements import codec
from infra.environments import EMULATOR
from local.device import Device, topic_of
from local.emulator import ASSEMBLY, ROOT, difference, edit, synthesise, templates_of
from local.lake import trails
from local.provider import ReceivedPush
from local.system import PATIENCE, System, running
from tests import previous

pytestmark = [pytest.mark.system, pytest.mark.asyncio]

RATE = 4
"""Statements a second: fewer than 300 a minute, or a long deployment on a busy machine would bring the cap on."""
BEFORE, AFTER = 3.0, 5.0
"""Seconds of them before the deployment begins and after it has ended."""
SENDERS = 100
"""So many that none comes near the limit of a pair, however long the deployment takes."""
VISIBILITY_S = 20
"""The emulator kills what a changed function is at: its messages come again as after a crash, but within the test."""
LAKE_S = 10.0
"""As long as the lake may lag behind, when it is asked for what got lost."""
CHAT = topic_of("a chat that outlasts a version")
IN_HAND = sum(consumer.concurrency * consumer.batch for consumer in (EMULATOR.match, EMULATOR.dispatch))
"""So many messages match and a channel's dispatch can be at when the deployment ends them: no more come again."""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A checkout of the version before this one, with this one's tools."""
    checkout = previous.unpack(tmp_path, changed=previous.FUNCTIONS, deployed=True)
    (checkout / ".build").mkdir()
    (ROOT / ".build" / "layers").mkdir(parents=True, exist_ok=True)
    for tools in (".venv", ".tools", ".build/layers"):
        (checkout / tools).symlink_to(ROOT / tools)
    return checkout


@asynccontextmanager
async def flowing(system: System, senders: list[Device]) -> AsyncIterator[list[bytes]]:
    """Statements, published one after the other for as long as the context lasts."""
    published: list[bytes] = []

    async def publish() -> None:
        for number in count():
            raw = senders[number % len(senders)].statement(CHAT, data=f"message {number}".encode())
            # Before `inject`, which can be cancelled after it has shown the statement.
            published.append(raw)
            await system.store.inject(raw)
            await asyncio.sleep(1 / RATE)

    publishing = asyncio.create_task(publish())
    try:
        yield published
    finally:
        publishing.cancel()


def by_content(pushes: Iterable[ReceivedPush]) -> dict[str, list[ReceivedPush]]:
    """Those that a provider accepted, by the data of their statement."""
    found = defaultdict(list)
    for push in pushes:
        if push.accepted:
            message = push.payload.get("message")
            found[message["data"]["statement_data"] if message else push.payload["statement"]["data"]].append(push)
    return found


def name_of(push: ReceivedPush) -> str:
    """What a phone knows a push again by: APNs' id, or, as FCM has none, all that the app is handed."""
    message = push.payload.get("message")
    return json.dumps(message["data"], sort_keys=True) if message else push.headers["apns-id"]


def check_repeats(pushes: Iterable[ReceivedPush]) -> None:
    """A push may come again if its function was ended, but as the same."""
    contents = by_content(pushes).values()
    for repeats in contents:
        assert len({name_of(push) for push in repeats}) == 1
    assert sum(len(repeats) - 1 for repeats in contents) <= IN_HAND


def hasten(template: str) -> str:
    """The same for the queues as the assembly would have them."""
    return re.sub(r'"VisibilityTimeout": \d+', f'"VisibilityTimeout": {VISIBILITY_S}', template)


def resources(assembly: Path) -> dict[str, Any]:
    templates = [json.loads(template.read_text())["Resources"] for template in templates_of(assembly)]
    return {name: resource.get("Properties") for template in templates for name, resource in template.items()}


def hasten_deployed(system: System) -> None:
    sqs = system.client("sqs")
    for url in sqs.list_queues()["QueueUrls"]:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(VISIBILITY_S)})


def pushed(system: System) -> tuple[set[str], set[str]]:
    """What APNs and FCM have accepted, as the data of the statements."""
    return set(by_content(system.apns.received)), set(by_content(system.fcm.received))


async def explained(system: System, published: Iterable[bytes]) -> str:
    """What the lake knows of each statement that a provider did not accept; and what was accepted, but not published."""
    known: dict[str, list[str]] = {}
    async for events in system.lake.growing(LAKE_S):
        known = trails(events)
    by_data = {data_of(raw): codec.digest(raw).hex() for raw in published}
    lines = []
    for name, accepted in zip(("APNs", "FCM"), pushed(system), strict=True):
        lines += [f"accepted by {name}, but not published: {data}" for data in sorted(accepted - by_data.keys())]
        for data in by_data.keys() - accepted:
            lines += [f"not accepted by {name}: {data} {by_data[data]}", *known.get(by_data[data], ["not in the lake"])]
    return "\n".join(lines)


def data_of(raw: bytes) -> str:
    return (codec.decode(raw).data or b"").hex()


async def test_an_upgrade_while_statements_flow_loses_none_and_shows_none_twice(before: Path) -> None:
    senders = [Device(f"sender {number}") for number in range(SENDERS)]
    rules = [(sender.public_key, CHAT) for sender in senders]
    async with running("upgrade-test", lambda _: None, checkout=before) as system:
        emulator = system.deployment.emulator
        assembly, *_ = await asyncio.gather(
            asyncio.to_thread(synthesise, emulator, system.stand_ins, name="cdk-after.out"),
            system.register(Device("Bob"), "apns", "b0b1" * 16, *rules),
            system.register(Device("Carol"), "fcm", "carol-" + "G" * 140, *rules),
            asyncio.to_thread(hasten_deployed, system),
        )
        assert resources(assembly) != resources(emulator.folder / ASSEMBLY), "a version would be deployed over itself"
        edit(assembly, hasten)
        async with flowing(system, senders) as published:
            await asyncio.sleep(BEFORE)
            await system.upgraded(assembly)
            await asyncio.sleep(AFTER)

        everything = {data_of(raw) for raw in published}
        left, deadline = await asyncio.to_thread(system.messages), time.monotonic() + PATIENCE
        while (left or pushed(system) != (everything, everything)) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            left = await asyncio.to_thread(system.messages)
        assert not left
        assert pushed(system) == (everything, everything), await explained(system, published)
        check_repeats(system.apns.received)
        check_repeats(system.fcm.received)
        left_over = await asyncio.to_thread(difference, emulator, assembly)
        assert not left_over, left_over
