"""A subscriber of the development statement store: which statements it wants, and the events that bring them."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

type Filter = Callable[[frozenset[bytes]], bool]
"""Whether a statement with these topics is wanted."""

_BATCH = 4 << 20
"""Hex digits of statements in one replayed event."""
_BUFFERED_EVENTS = 128
_TOPIC_WIDTH = 32
_MOST_TOPICS = {"matchAll": 4, "matchAny": 128}


class StoreSubscription:
    """The standing statements first, then the live ones. A subscriber with 128 live events unsent is dropped."""

    def __init__(self, socket: ServerConnection, name: str, wants: Filter, standing: list[bytes]) -> None:
        self.name = name
        self.wants = wants
        self._socket = socket
        self._standing = standing
        self._live: asyncio.Queue[str] = asyncio.Queue(_BUFFERED_EVENTS)
        self._feed: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Does nothing the second time."""
        self._feed = self._feed or asyncio.create_task(self._run())

    def stop(self) -> None:
        if self._feed:
            self._feed.cancel()

    def offer(self, event: str) -> bool:
        """False if the buffer is full."""
        if self._live.full():
            return False
        self._live.put_nowait(event)
        return True

    async def _run(self) -> None:
        """Replay and live share the socket: live events come between the batches, as from a node."""
        with suppress(ConnectionClosed):
            for event in _replay(self._standing):
                await self._notify(event)
                while not self._live.empty():
                    await self._notify(self._live.get_nowait())
            self._standing = []
            while True:
                await self._notify(await self._live.get())

    async def _notify(self, event: str) -> None:
        params = f'{{"subscription":"{self.name}","result":{event}}}'
        await self._socket.send(f'{{"jsonrpc":"2.0","method":"statement_statement","params":{params}}}')


def parse_filter(given: Any) -> Filter:
    """`"any"`, `{"matchAll": [topics]}` or `{"matchAny": [topics]}`; raises `ValueError` for anything else."""
    match given:
        case "any":
            return lambda _: True
        case {"matchAll": list(topics), **others} if not others:
            return _topics(topics, "matchAll").issubset
        case {"matchAny": list(topics), **others} if not others:
            wanted = _topics(topics, "matchAny")
            return lambda topics: not wanted.isdisjoint(topics)
    raise ValueError("the filter is any, matchAll or matchAny")


def parse_hex(given: Any) -> bytes:
    """Raises `ValueError` unless it is a string of hex with 0x."""
    if not isinstance(given, str) or not given.startswith("0x"):
        raise ValueError("bytes are hex with 0x")
    return bytes.fromhex(given[2:])


def live_event(statement: bytes) -> str:
    return _event({"statements": [_hex(statement)]})


def _replay(standing: Sequence[bytes]) -> Iterator[str]:
    """At least one event; `remaining` counts down to 0."""
    batch: list[str] = []
    size, remaining = 0, len(standing)
    for statement in standing:
        digits = _hex(statement)
        if batch and size + len(digits) > _BATCH:
            remaining -= len(batch)
            yield _event({"statements": batch, "remaining": remaining})
            batch, size = [], 0
        batch.append(digits)
        size += len(digits)
    yield _event({"statements": batch, "remaining": 0})


def _topics(given: list[Any], kind: str) -> frozenset[bytes]:
    topics = frozenset(parse_hex(topic) for topic in given)
    if len(given) > _MOST_TOPICS[kind] or any(len(topic) != _TOPIC_WIDTH for topic in topics):
        raise ValueError(f"{kind} takes up to {_MOST_TOPICS[kind]} topics of {_TOPIC_WIDTH} bytes")
    return topics


def _event(data: dict[str, Any]) -> str:
    return json.dumps({"event": "newStatements", "data": data}, separators=(",", ":"))


def _hex(raw: bytes) -> str:
    return f"0x{raw.hex()}"
