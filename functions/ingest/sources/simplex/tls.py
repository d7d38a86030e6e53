"""TLS by way of a socket that holds no more than a record: who the other side is, the caller has to check.

asyncio's own takes 256 KiB for each connection and reads ahead, and can't end one direction alone.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

_ALPN = "smp/1"
_PIECE_BYTES = 4_096
"""What a buffer has to hold, and so keeps for as long as the connection lasts."""
_MOST_PIECES = 64
"""Of one block, which fits into a single record of TLS. Each costs as much as a whole one."""


def client_context() -> ssl.SSLContext:
    """Of clients that know a server by the fingerprint of its identity, and name no host: see `ingest.sources.simplex.handshake`.

    A server that is asked for a host shows the certificate of its web page. Nothing is resumed, which would change the
    session's id.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+CHACHA20")
    context.set_alpn_protocols([_ALPN])
    return context


class TlsStream:
    """One reader and any number of writers. All raise `OSError` if the connection breaks or was closed."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._writing = asyncio.Lock()

    @property
    def session_id(self) -> bytes:
        return self._tls.get_channel_binding("tls-unique") or b""

    @property
    def certificates(self) -> Sequence[bytes]:
        """What the other side showed, in DER, its own first."""
        return self._tls.get_unverified_chain()

    async def shake_hands(self) -> None:
        await self._whenever_possible(self._tls.do_handshake)

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes. Raises `ConnectionResetError` for what comes in more than `_MOST_PIECES` records."""
        taken, pieces = bytearray(), 0
        while len(taken) < count:
            missing, pieces = count - len(taken), pieces + 1
            if pieces > _MOST_PIECES:
                raise ConnectionResetError
            piece = await self._whenever_possible(lambda: self._tls.read(missing))  # noqa: B023 - called at once
            if not piece:
                raise ConnectionResetError
            taken += piece
        return bytes(taken)

    async def write(self, content: bytes) -> None:
        """Waits until the other side, or its machine, has taken most of it."""
        async with self._writing:
            for start in range(0, len(content), _PIECE_BYTES):
                self._tls.write(content[start : start + _PIECE_BYTES])
                await self._send()

    def end_writing(self) -> None:
        """The other side sees the end, and can still be read to its own."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()

    async def _whenever_possible[Result](self, act: Callable[[], Result]) -> Result:
        while True:
            try:
                result = act()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            else:
                await self._flush()
                return result

    async def _receive(self) -> None:
        # A socket that always has something never waits, and everything else of this task would.
        await asyncio.sleep(0)
        received = await asyncio.get_running_loop().sock_recv(self._socket, _PIECE_BYTES)
        if received:
            self._incoming.write(received)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        """What two writers had to send must not be mixed."""
        if self._outgoing.pending:
            async with self._writing:
                await self._send()

    async def _send(self) -> None:
        while pending := self._outgoing.read():
            await asyncio.get_running_loop().sock_sendall(self._socket, pending)
