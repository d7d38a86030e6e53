"""A client's end of NTF and SMP: the handshake, commands and their answers, and what a server sends unasked."""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from local.simplex.codec import WireFault, WireReader, short, u16
from local.simplex.identity import key_hash_of, key_signed_by
from local.simplex.keys import AuthKey
from local.simplex.stream import (
    NTF_ALPN,
    NTF_BLOCK,
    SMP_ALPN,
    SMP_BLOCK,
    BlockStream,
    ConnectionLostError,
    SimplexAddress,
)
from local.simplex.transmissions import WireTransmission, block_contents, transmissions_in

_ANSWER_S = 60.0
SMP_VERSION = 10
"""The last without encrypted blocks."""
_FIRST_WITH_BATCHES = 2


class CommandRefusedError(Exception):
    """The server has answered with ERR; `error` is what follows."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True)
class Greeting:
    """What a handshake has agreed on. NTF's version 1 has no key, and says the session with each transmission."""

    version: int
    session_id: bytes
    server_key: X25519PublicKey | None

    @property
    def explicit_session(self) -> bytes | None:
        return None if self.server_key else self.session_id


async def greet_ntf(stream: BlockStream, address: SimplexAddress, most: int) -> Greeting:
    """Version `most` at the most; raises `WireFault` where the server is not what the facts have."""
    reader = WireReader(await stream.read())
    least, newest, session_id = reader.u16(), reader.u16(), reader.short()
    version, chain = min(newest, most), stream.certificates
    _check(session_id == stream.session_id, "the session's id is not that of TLS")
    _check(key_hash_of(chain) == address.key_hash, "the server is another")
    _check(least <= version, "no common version")
    _check(stream.protocol is not None or newest == 1, "more than version 1 without ALPN")
    key = key_signed_by(chain, reader.large()) if newest >= _FIRST_WITH_BATCHES else None
    await stream.write(u16(version) + short(address.key_hash))
    return Greeting(version, session_id, key if version >= _FIRST_WITH_BATCHES else None)


async def greet_smp(stream: BlockStream, address: SimplexAddress) -> Greeting:
    reader = WireReader(await stream.read())
    least, newest, session_id = reader.u16(), reader.u16(), reader.short()
    chain, signed = reader.several(reader.large), reader.large()
    _check(session_id == stream.session_id, "the session's id is not that of TLS")
    _check(least <= SMP_VERSION <= newest, "no common version")
    _check(key_hash_of(chain) == address.key_hash, "the server is another")
    await stream.write(u16(SMP_VERSION) + short(address.key_hash))
    return Greeting(SMP_VERSION, session_id, key_signed_by(chain, signed))


def _check(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads like an assertion
    if not holds:
        raise WireFault(otherwise)


class SimplexClient:
    """A connection after its handshake; a context manager. Answers find their commands by the correlation."""

    def __init__(self, stream: BlockStream, greeting: Greeting) -> None:
        self.stream = stream
        self.greeting = greeting
        self.events: asyncio.Queue[WireTransmission] = asyncio.Queue()
        self._waiting: dict[bytes, asyncio.Future[WireTransmission]] = {}

    @classmethod
    async def of_ntf(
        cls, address: SimplexAddress, *, host: str | None = None, port: int | None = None, most: int = 3
    ) -> Self:
        """`host` and `port` where the address is reached, if elsewhere. Raises `ConnectionLostError`, `WireFault`."""
        alpn = NTF_ALPN if most >= _FIRST_WITH_BATCHES else None
        stream = await BlockStream.connected(*_place(address, host, port), NTF_BLOCK, alpn)
        return cls(stream, await _or_close(stream, greet_ntf(stream, address, most)))

    @classmethod
    async def of_smp(cls, address: SimplexAddress) -> Self:
        stream = await BlockStream.connected(*_place(address), SMP_BLOCK, SMP_ALPN)
        return cls(stream, await _or_close(stream, greet_smp(stream, address)))

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        await self.stream.close()

    @property
    def alive(self) -> bool:
        return not self._reading.done()

    def authorized(self, transmission: WireTransmission, key: AuthKey) -> WireTransmission:
        return transmission.by(key, self.greeting.session_id, self.greeting.server_key)

    async def ask(self, command: bytes, entity: bytes = b"", key: AuthKey | None = None) -> bytes:
        """The answer; raises `CommandRefusedError` and `ConnectionLostError`."""
        asked = WireTransmission.asking(command, entity)
        [answer] = await self.exchange([self.authorized(asked, key) if key else asked])
        return accepted(answer.command)

    async def exchange(self, transmissions: Sequence[WireTransmission]) -> list[WireTransmission]:
        """Their answers, in the same order; several travel in one block where they fit."""
        loop = asyncio.get_running_loop()
        futures = [self._waiting.setdefault(each.correlation, loop.create_future()) for each in transmissions]
        if not self.alive:
            self._give_up()
        await self.stream.write(*self._contents(transmissions))
        async with asyncio.timeout(_ANSWER_S):
            return await asyncio.gather(*futures)

    def _contents(self, transmissions: Sequence[WireTransmission]) -> list[bytes]:
        if (session := self.greeting.explicit_session) is not None:
            return [each.encoded(session) for each in transmissions]
        return list(block_contents(transmissions, self.stream.size))

    async def _read(self) -> None:
        try:
            while True:
                for each in self._decoded(await self.stream.read()):
                    self._take(each)
        except (ConnectionLostError, WireFault):
            self._give_up()

    def _decoded(self, content: bytes) -> list[WireTransmission]:
        if (session := self.greeting.explicit_session) is not None:
            return [WireTransmission.decoded(content, session)]
        return transmissions_in(content)

    def _take(self, transmission: WireTransmission) -> None:
        waiting = self._waiting.pop(transmission.correlation, None)
        if waiting is None:
            self.events.put_nowait(transmission)
        elif not waiting.done():
            waiting.set_result(transmission)

    def _give_up(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionLostError("the connection has ended"))
        self._waiting.clear()


def accepted(answer: bytes) -> bytes:
    """What is no error; raises `CommandRefusedError`."""
    if answer.startswith(b"ERR "):
        raise CommandRefusedError(answer.removeprefix(b"ERR ").decode())
    return answer


def _place(address: SimplexAddress, host: str | None = None, port: int | None = None) -> tuple[str, int]:
    return host or address.hosts[0], port or int(address.port or 443)


async def _or_close(stream: BlockStream, greeting: Awaitable[Greeting]) -> Greeting:
    try:
        return await greeting
    except BaseException:
        stream.abort()
        raise
