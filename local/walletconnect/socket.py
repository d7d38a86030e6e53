"""A client's connection to the relay: it publishes, subscribes, and acknowledges what it is shown."""

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from local.walletconnect.codec import did_key, sign

PROJECT_ID = "2" * 32
_JWT_TTL_S = 24 * 60 * 60

type Show = Callable[[str, str], None]
"""Called with the topic and the envelope of each message."""


class RelaySocket:
    def __init__(self, socket: ClientConnection, show: Show) -> None:
        self._socket = socket
        self._show = show
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def publish(self, topic: str, message: str, *, tag: int, ttl: int) -> None:
        await self._call("irn_publish", topic=topic, message=message, tag=tag, ttl=ttl, prompt=False)

    async def subscribe(self, topic: str) -> None:
        await self._call("irn_subscribe", topic=topic)

    async def converse(self) -> None:
        """Until the connection ends."""
        with suppress(ConnectionClosed):
            async for text in self._socket:
                await self._receive(json.loads(text))

    async def _call(self, method: str, **params: Any) -> Any:
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._send({"id": number, "jsonrpc": "2.0", "method": method, "params": params})
        return await answer

    async def _receive(self, received: dict[str, Any]) -> None:
        match received:
            case {"method": "irn_subscription", "id": number, "params": {"data": data}}:
                await self._send({"id": number, "jsonrpc": "2.0", "result": True})
                self._show(data["topic"], data["message"])
            case {"id": number, "result": result}:
                self._answers.pop(number).set_result(result)
            case {"id": number, "error": error}:
                self._answers.pop(number).set_exception(RuntimeError(f"the relay: {error}"))

    async def _send(self, message: dict[str, Any]) -> None:
        await self._socket.send(json.dumps(message))


@asynccontextmanager
async def background_tasks() -> AsyncIterator[asyncio.TaskGroup]:
    """What fails first, in a task or outside, is raised as it is."""
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures


@asynccontextmanager
async def connected(url: str, show: Show, context: ssl.SSLContext) -> AsyncIterator[RelaySocket]:
    """As a new client of the relay."""
    key, now = Ed25519PrivateKey.generate(), int(time.time())
    claims = {"iss": did_key(key.public_key()), "sub": os.urandom(32).hex(), "aud": url}
    auth = sign({**claims, "iat": now, "exp": now + _JWT_TTL_S}, key)
    query = urlencode({"auth": auth, "projectId": PROJECT_ID})
    async with connect(f"{url}/?{query}", ssl=context, max_size=1 << 22) as socket:
        relay = RelaySocket(socket, show)
        conversation = asyncio.create_task(relay.converse())
        try:
            yield relay
        finally:
            await socket.close()
            await conversation
