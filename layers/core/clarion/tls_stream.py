"""TLS over a socket, which holds no more than a record: who the other side is, the caller has to check.

    socket ──pieces──▶ OpenSSL's buffers in memory ──▶ content, and back

asyncio's own TLS takes 256 KiB for each connection, its streams read as much ahead, and neither can end one direction
alone.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress

_PIECE_BYTES = 4_096
"""What a buffer has to hold, and so keeps for as long as the connection lasts."""
_MOST_PIECES = 64
"""Of one block, which fits into a single record of TLS. Each costs as much as a whole one."""
_MOST_BYTES_BESIDE = 2 * _PIECE_BYTES
"""What may be received for a block beyond its own bytes: records have heads, some are TLS's own, and the last piece is read
ahead. A record that changes keys has 27 bytes, and costs 7 to 14 microseconds."""
_MOST_HANDSHAKE_BYTES = 32_768
"""Most of it is certificates: a chain as ours or of SimpleX's servers has 1,000 to 4,000."""


class TlsStream:
    """One reader and any number of writers. All raise `OSError` if the connection breaks or was closed."""

    __slots__ = ("_incoming", "_outgoing", "_room", "_tls", "_writing", "socket")

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, *, server_side: bool = False) -> None:
        """`connected` doesn't block."""
        self.socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._writing = asyncio.Lock()
        self._room = 0
        """How many bytes may still be received for what is read just now."""

    @property
    def session_id(self) -> bytes:
        """The same at both ends, and another one in each session."""
        return self._tls.get_channel_binding("tls-unique") or b""

    @property
    def certificates(self) -> Sequence[bytes]:
        """What the other side showed, in DER, its own first."""
        return tuple(self._tls.get_unverified_chain() or ())

    @property
    def suite(self) -> str | None:
        cipher = self._tls.cipher()
        return cipher[0] if cipher else None

    @property
    def protocol(self) -> str | None:
        """What both sides agreed on by ALPN."""
        return self._tls.selected_alpn_protocol()

    async def handshake(self) -> None:
        """Raises `ConnectionResetError` for one of more than `_MOST_HANDSHAKE_BYTES`."""
        self._room = _MOST_HANDSHAKE_BYTES
        await self._until_done(self._tls.do_handshake)

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes.

        Raises `ConnectionResetError` for what comes in more than `_MOST_PIECES` records, or beside more than
        `_MOST_BYTES_BESIDE`.
        """
        taken, pieces = bytearray(), 0
        self._room = count + _MOST_BYTES_BESIDE
        while len(taken) < count:
            missing, pieces = count - len(taken), pieces + 1
            if pieces > _MOST_PIECES:
                raise ConnectionResetError
            piece = await self._until_done(lambda: self._tls.read(missing))  # noqa: B023 - called at once
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
            self.socket.shutdown(socket.SHUT_WR)

    async def end(self) -> None:
        """Say so by TLS, and wait until the other side has closed as well: else TCP might take back what was sent last."""
        with suppress(OSError):
            with suppress(ssl.SSLError):
                self._tls.unwrap()
            await self._flush()
            self.end_writing()
            while await asyncio.get_running_loop().sock_recv(self.socket, _PIECE_BYTES):
                pass

    def close(self) -> None:
        self.socket.close()

    async def _until_done[Result](self, operation: Callable[[], Result]) -> Result:
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._receive()
            except ssl.SSLError:
                with suppress(OSError):
                    await self._flush()  # the alert that OpenSSL has left
                raise
            else:
                await self._flush()
                return result

    async def _receive(self) -> None:
        if self._room <= 0:
            raise ConnectionResetError
        # A socket that always has something never waits, and everything else of this task would.
        await asyncio.sleep(0)
        received = await asyncio.get_running_loop().sock_recv(self.socket, _PIECE_BYTES)
        self._room -= len(received)
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
            await asyncio.get_running_loop().sock_sendall(self.socket, pending)
