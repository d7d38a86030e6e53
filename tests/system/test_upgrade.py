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

from clarion import statement
from infra.environments import EMULATOR
from local.device import Device, topic_of
from local.emulator import ASSEMBLY, ROOT, difference, edit, synthesise, template_of
from local.provider import Push
from local.system import System, running
from tests import previous

pytestmark = [pytest.mark.system, pytest.mark.asyncio]

RATE = 10
"""Statements a second."""
BEFORE, AFTER = 3.0, 5.0
"""Seconds of them before the deployment begins and after it has ended."""
SENDERS = 100
"""So many that none comes near the limit of a pair, however long the deployment takes."""
VISIBILITY_S = 20
"""The emulator kills what a changed function is at: its messages come again as after a crash, but within the test."""
PATIENCE = 120.0
CHAT = topic_of("a chat that outlasts a version")
QUEUES = ("statements", "apns", "voip", "fcm")
IN_HAND = sum(room.concurrency * room.batch for room in (EMULATOR.match, EMULATOR.apns))
"""So many messages match and a channel's dispatch can be at when the deployment ends them: no more come again."""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A checkout of the version before this one, with this one's tools."""
    checkout = previous.unpack(tmp_path, changed=previous.FUNCTIONS)
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
            await system.store.inject(raw)
            published.append(raw)
            await asyncio.sleep(1 / RATE)

    publishing = asyncio.create_task(publish())
    try:
        yield published
    finally:
        publishing.cancel()


def by_content(pushes: Iterable[Push]) -> dict[str, list[Push]]:
    """Those that a provider accepted, by the data of their statement."""
    found = defaultdict(list)
    for push in pushes:
        if push.accepted:
            message = push.payload.get("message")
            found[message["data"]["statement_data"] if message else push.payload["statement"]["data"]].append(push)
    return found


def name_of(push: Push) -> str:
    """What a phone knows a push again by: APNs' id, or, as FCM has none, all that the app is handed."""
    message = push.payload.get("message")
    return json.dumps(message["data"], sort_keys=True) if message else push.headers["apns-id"]


def check_repeats(pushes: Iterable[Push]) -> None:
    """A push may come again if its function was ended, but as the same."""
    contents = by_content(pushes).values()
    for repeats in contents:
        assert len({name_of(push) for push in repeats}) == 1
    assert sum(len(repeats) - 1 for repeats in contents) <= IN_HAND


def hasten(template: str) -> str:
    """The same for the queues as the assembly would have them."""
    return re.sub(r'"VisibilityTimeout": \d+', f'"VisibilityTimeout": {VISIBILITY_S}', template)


def resources(assembly: Path) -> dict[str, Any]:
    told = json.loads(template_of(assembly).read_text())["Resources"]
    return {name: resource.get("Properties") for name, resource in told.items()}


class Queues:
    def __init__(self, system: System) -> None:
        self._sqs, prefix = system.client("sqs"), system.deployment.outputs.table_prefix
        names = [f"{prefix}{name}{kind}" for name in QUEUES for kind in ("", "-dead")]
        self._urls = {name: self._sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in names}

    def hasten(self) -> None:
        for url in self._urls.values():
            self._sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(VISIBILITY_S)})

    def messages(self) -> dict[str, int]:
        """How many there are, in whatever state, in the queues that are not empty."""
        return {name: messages for name, url in self._urls.items() if (messages := self._count(url))}

    def _count(self, url: str) -> int:
        told = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return sum(int(value) for name, value in told.items() if name.startswith("ApproximateNumberOfMessages"))


def pushed(system: System) -> tuple[set[str], set[str]]:
    """What APNs and FCM have accepted, as the data of the statements."""
    return set(by_content(system.apns.received)), set(by_content(system.fcm.received))


async def test_an_upgrade_while_statements_flow_loses_none_and_shows_none_twice(before: Path) -> None:
    senders = [Device(f"sender {number}") for number in range(SENDERS)]
    rules = [(sender.public_key, CHAT) for sender in senders]
    async with running("upgrade-test", lambda _: None, checkout=before) as system:
        emulator, queues = system.deployment.emulator, await asyncio.to_thread(Queues, system)
        assembly, *_ = await asyncio.gather(
            asyncio.to_thread(synthesise, emulator, system.stubs, name="cdk-after.out"),
            system.register(Device("Bob"), "apns", "b0b1" * 16, *rules),
            system.register(Device("Carol"), "fcm", "carol-" + "G" * 140, *rules),
            asyncio.to_thread(queues.hasten),
        )
        assert resources(assembly) != resources(emulator.folder / ASSEMBLY), "a version would be deployed over itself"
        edit(assembly, hasten)
        async with flowing(system, senders) as published:
            await asyncio.sleep(BEFORE)
            await system.upgraded(assembly)
            await asyncio.sleep(AFTER)

        everything = {(statement.decode(raw).data or b"").hex() for raw in published}
        left, deadline = await asyncio.to_thread(queues.messages), time.monotonic() + PATIENCE
        while (left or pushed(system) != (everything, everything)) and time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            left = await asyncio.to_thread(queues.messages)
        assert not left
        assert pushed(system) == (everything, everything)
        check_repeats(system.apns.received)
        check_repeats(system.fcm.received)
        left_over = await asyncio.to_thread(difference, emulator, assembly)
        assert not left_over, left_over
