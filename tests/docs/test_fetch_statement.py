import asyncio
import re
import sys
from collections.abc import AsyncIterator
from hashlib import blake2b
from pathlib import Path

import pytest
import pytest_asyncio

from local.device import Device, topic_of
from local.store import StatementStore

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "fetch_statement.py"
TOPIC = topic_of("a conversation")
SECONDS = 60


@pytest_asyncio.fixture
async def store() -> AsyncIterator[StatementStore]:
    async with StatementStore() as store:
        yield store


async def fetched(store: StatementStore, statement: bytes) -> str:
    """What the example prints."""
    arguments = (store.url, TOPIC.hex(), blake2b(statement, digest_size=32).hexdigest())
    command = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), *arguments, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        printed, _ = await command.communicate()
    return printed.decode().strip()


@pytest.mark.parametrize("size", [0, 63, 64, 5_000, 100_000], ids=lambda size: f"{size} bytes")
async def test_the_data_that_a_push_had_no_space_for_are_fetched_by_the_hash(store: StatementStore, size: int) -> None:
    sender = Device("sender")
    statement = sender.statement(TOPIC, topic_of("another"), data=bytes(size), channel=bytes(32))
    for one in (
        sender.statement(TOPIC, data=b"an earlier one"),
        statement,
        sender.statement(TOPIC, data=b"a later one"),
    ):
        await store.submit(one)
    assert await fetched(store, statement) == bytes(size).hex()


async def test_a_statement_that_the_node_has_dropped_is_gone(store: StatementStore) -> None:
    assert await fetched(store, Device("sender").statement(TOPIC, data=b"never submitted")) == "gone"


def test_the_page_shows_the_example() -> None:
    [shown] = re.findall(r"```python\n(.*?)```", (DOCS / "receiving.md").read_text(), re.DOTALL)
    assert shown in EXAMPLE.read_text()
