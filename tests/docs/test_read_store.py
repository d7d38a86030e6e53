"""docs/examples/read_store.py against the development node."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from local.device import NEVER_EXPIRES, Device, forge, topic_of
from local.store import StatementStore

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "read_store.py"
TOPIC, SECOND, FOREIGN = topic_of("a conversation"), topic_of("another"), topic_of("nobody's")
SECONDS = 60


@pytest_asyncio.fixture
async def store() -> AsyncIterator[StatementStore]:
    async with StatementStore(relay_unverified=True) as store:
        yield store


async def shown(store: StatementStore, sender: Device, *statements: bytes) -> list[dict[str, Any]]:
    """What the example prints for rules that name the sender and two topics."""
    for statement in statements:
        await store.submit(statement)
    arguments = (store.url, sender.public_key.hex(), TOPIC.hex(), SECOND.hex())
    command = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), *arguments, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        printed, _ = await command.communicate()
    assert command.returncode == 0
    return [json.loads(line) for line in printed.splitlines()]


def digest(sender: Device, topic: bytes, content: str) -> str:
    """As of a push: docs/receiving.md, "The same push twice"."""
    return sha256(f"{sender.public_key.hex()}{topic.hex()}{content}".encode()).hexdigest()


@pytest.mark.parametrize("size", [0, 63, 64, 5_000, 100_000], ids=lambda size: f"{size} bytes")
async def test_a_statement_is_shown_with_both_digests_of_the_first_topic_that_a_rule_names(
    store: StatementStore, size: int
) -> None:
    sender = Device("sender")
    statement = sender.statement(FOREIGN, SECOND, TOPIC, data=bytes(size), channel=bytes(32))
    name, data = blake2b(statement, digest_size=32).hexdigest(), bytes(size).hex()
    assert await shown(store, sender, statement) == [
        {
            "sender": sender.public_key.hex(),
            "topic": SECOND.hex(),
            "data": data,
            "hash": name,
            "expires_at": NEVER_EXPIRES,
            "digests": sorted(digest(sender, SECOND, content) for content in (data, name)),
        }
    ]


async def test_what_no_rule_names_and_what_is_not_signed_is_passed_over(store: StatementStore) -> None:
    sender = Device("sender")
    others = Device("stranger").statement(TOPIC, data=b"a stranger's"), sender.statement(FOREIGN, data=b"elsewhere")
    forged = forge(sender.statement(TOPIC, data=b"forged"))
    [one] = await shown(store, sender, *others, forged, sender.statement(TOPIC, data=b"genuine"))
    assert bytes.fromhex(one["data"]) == b"genuine"


async def test_the_same_data_signed_anew_is_shown_once(store: StatementStore) -> None:
    sender = Device("sender")
    twice = [sender.statement(TOPIC, data=b"the same") for _ in range(2)]
    assert len(await shown(store, sender, *twice)) == 1
