"""The version before this one is deployed, statements flow, and this one is deployed over it: nothing may get lost."""

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from clarion import statement
from local.device import Device, topic_of
from local.emulator import ROOT, differs, synthesise
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


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A checkout of the version before this one, with this one's tools."""
    checkout = previous.unpack(tmp_path)
    (checkout / ".build").mkdir()
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


def hasten(assembly: Path) -> None:
    """The same for the queues as the assembly would have them."""
    template = next(assembly.glob("*.template.json"))
    template.write_text(
        re.sub(r'"VisibilityTimeout": \d+', f'"VisibilityTimeout": {VISIBILITY_S}', template.read_text())
    )


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
        hasten(assembly)
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
        for pushes in by_content(system.apns.received).values():
            assert len({push.headers["apns-id"] for push in pushes}) == 1
        assert not await asyncio.to_thread(differs, emulator, assembly)
