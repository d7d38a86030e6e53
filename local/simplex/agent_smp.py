"""What an agent does at SMP servers: opens queues, has them notify, sends and fetches messages."""

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.simplex.agent_state import AgentQueue
from local.simplex.client import SimplexClient
from local.simplex.codec import WireReader, short
from local.simplex.keys import SharedBox, auth_key, dh_public_key, pkcs8, spki
from local.simplex.stream import SimplexAddress


class SmpPool:
    """A connection to each SMP server that is asked; a context manager. Raises `ConnectionLostError`."""

    def __init__(self) -> None:
        self._clients: dict[SimplexAddress, SimplexClient] = {}
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def open_queue(self, server: SimplexAddress) -> AgentQueue:
        key = Ed25519PrivateKey.generate()
        dh = short(spki(X25519PrivateKey.generate().public_key()))
        command = b"NEW " + short(spki(key.public_key())) + dh + b"0" + b"C" + b"F"
        reader = WireReader(await (await self._client(server)).ask(command, key=key))
        reader.expect(b"IDS ")
        return AgentQueue(server, pkcs8(key), reader.short(), reader.short())

    async def enable(self, queue: AgentQueue) -> None:
        """NKEY: whoever has the notifier's key may follow the queue, and only this agent can read what is said of it."""
        key, dh = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
        command = b"NKEY " + short(spki(key.public_key())) + short(spki(dh.public_key()))
        reader = WireReader(await self._ask(queue, command))
        reader.expect(b"NID ")
        queue.notifier_id, server_key = reader.short(), dh_public_key(reader.short())
        queue.notifier_key, queue.notifier_secret = pkcs8(key), SharedBox.between(dh, server_key).secret

    async def disable(self, queue: AgentQueue) -> None:
        await self._ask(queue, b"NDEL")

    async def delete(self, queue: AgentQueue) -> None:
        await self._ask(queue, b"DEL")

    async def send(self, server: SimplexAddress, sender_id: bytes, body: bytes, *, notify: bool = True) -> None:
        """As somebody who has the queue's address."""
        await (await self._client(server)).ask(b"SEND " + (b"T " if notify else b"F ") + body, sender_id)

    async def fetch(self, queue: AgentQueue) -> list[tuple[bytes, bytes]]:
        """The messages that wait there, by their ids; they no longer do."""
        found = list[tuple[bytes, bytes]]()
        while (answer := await self._ask(queue, b"GET")) != b"OK":
            reader = WireReader(answer)
            reader.expect(b"MSG ")
            found.append((reader.short(), reader.rest()))
            await self._ask(queue, b"ACK " + short(found[-1][0]))
        return found

    async def _ask(self, queue: AgentQueue, command: bytes) -> bytes:
        return await (await self._client(queue.server)).ask(command, queue.recipient_id, auth_key(queue.key))

    async def _client(self, server: SimplexAddress) -> SimplexClient:
        async with self._lock:
            client = self._clients.get(server)
            if client is None or not client.alive:
                client = await self._stack.enter_async_context(await SimplexClient.of_smp(server))
                self._clients[server] = client
            return client
