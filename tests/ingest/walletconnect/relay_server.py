"""A relay for tests: it keeps what is published until it is acknowledged, and hands it over to who subscribes."""

import asyncio
import json
import ssl
from collections import defaultdict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve

from clarion import compact_json
from clarion.clock import now_ms
from tests.ports import reserve_port


class Kept(NamedTuple):
    topic: str
    message: str
    tag: int
    published_at: int


class RelayServer:
    """`tokens` and `projects` are of each connection. `refusals` are given in place of the next answers.

    `refused` topics are not subscribed to, and each is answered so once.
    """

    def __init__(self, certificate: Path) -> None:
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(certificate)
        self.mailbox: list[Kept] = []
        self.acknowledged: list[Kept] = []
        self.tokens: list[str] = []
        self.projects: list[str] = []
        self.subscribed: list[list[str]] = []
        self.refusals: list[dict[str, Any]] = []
        self.refused: set[str] = set()
        self.left: list[str] = []
        self.answers = True
        self.greeting: Callable[[ServerConnection], Any] | None = None
        self._followed: defaultdict[ServerConnection, set[str]] = defaultdict(set)
        self._shown: dict[int, Kept] = {}
        self._numbers = count(1_700_000_000_000_000_000)
        self._port = reserve_port(self)

    async def __aenter__(self) -> Self:
        self._server: Server = await serve(self._converse, "127.0.0.1", self._port, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"wss://127.0.0.1:{self._port}"

    @property
    def topics(self) -> set[str]:
        return {topic for batch in self.subscribed for topic in batch}

    async def publish(self, topic: str, message: str, tag: int = 4000, *, ago_ms: int = 0) -> Kept:
        kept = Kept(topic, message, tag, now_ms() - ago_ms)
        self.mailbox.append(kept)
        for socket, topics in self._followed.items():
            if topic in topics:
                await self._show(socket, kept)
        return kept

    async def show_again(self) -> None:
        """All that it has ever shown, under new numbers."""
        for kept in tuple(self._shown.values()):
            for socket in self._followed:
                await self._show(socket, kept)

    async def hang_up(self) -> None:
        for socket in tuple(self._followed):
            await socket.close()

    async def until(self, holds: Callable[[], object]) -> None:
        while not holds():
            await asyncio.sleep(0.005)

    async def _converse(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        query = parse_qs(urlsplit(socket.request.path).query)
        self.tokens += query["auth"]
        self.projects += query["projectId"]
        if self.greeting:
            await self.greeting(socket)
        try:
            async for text in socket:
                assert isinstance(text, str)
                await self._hear(socket, json.loads(text))
        finally:
            self._followed.pop(socket, None)

    async def _hear(self, socket: ServerConnection, said: dict[str, Any]) -> None:
        if "method" not in said:
            assert said["result"] is True
            kept = self._shown[said["id"]]
            self.acknowledged.append(kept)
            self.mailbox = [one for one in self.mailbox if one != kept]
            return
        if said["method"] == "irn_batchUnsubscribe":
            self.left += [each["topic"] for each in said["params"]["subscriptions"]]
            await socket.send(compact_json.encode({"id": said["id"], "jsonrpc": "2.0", "result": True}), text=True)
            return
        assert said["method"] == "irn_batchSubscribeBlocking"
        if not self.answers:
            return
        topics = said["params"]["topics"]
        answer = self.refusals.pop() if self.refusals else {"result": list(map(self._result, topics))}
        topics = [topic for topic in topics if topic not in self.refused]
        self.refused.clear()
        await socket.send(compact_json.encode({"id": said["id"], "jsonrpc": "2.0"} | answer), text=True)
        if "result" in answer:
            self.subscribed.append(topics)
            self._followed[socket].update(topics)
            for kept in [one for one in self.mailbox if one.topic in topics]:
                await self._show(socket, kept)

    def _result(self, topic: str) -> dict[str, Any]:
        if topic in self.refused:
            return {"error": {"code": -32000, "message": "in words", "data": "SubscriberLimitExceeded"}}
        return {"id": f"id of {topic}"}

    async def _show(self, socket: ServerConnection, kept: Kept) -> None:
        number = next(self._numbers)
        self._shown[number] = kept
        data = {"topic": kept.topic, "message": kept.message, "publishedAt": kept.published_at, "tag": kept.tag}
        params = {"id": "s", "data": data}
        request = {"id": number, "jsonrpc": "2.0", "method": "irn_subscription", "params": params}
        await socket.send(compact_json.encode(request), text=True)
