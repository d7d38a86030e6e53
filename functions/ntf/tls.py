"""TLS as agents speak it: 1.3 or 1.2, by ChaCha20-Poly1305 and X25519 alone, and never resumed.

Suites of TLS 1.3 can't be chosen by a context of this version of Python: `openssl.cnf` beside this module has the
process prefer ours, and a connection that has agreed on another one is closed. Agents offer no other.

A channel keeps what OpenSSL needs and hardly more: asyncio's own TLS has a buffer of 256 KiB for each connection.
"""

import asyncio
import os
import ssl
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from clarion.networks.simplex.server_identity import ServerIdentity

ALPN = "ntf/1"
CURVE = "X25519"
SUITES = frozenset({"TLS_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"})
READ_BYTES = 4_096
"""From the socket at a time: eight blocks."""


class ChannelClosedError(ConnectionError):
    """The other side has gone, or speaks no such TLS."""


def server_context(identity: ServerIdentity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    context.set_ecdh_curve(CURVE)
    context.set_alpn_protocols([ALPN])
    # A resumed session would have the binding of the one before.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    with _as_file(identity.chain) as chain, _as_file(identity.leaf_key) as key:
        context.load_cert_chain(chain, key)
    return context


def prefers_our_suite(context: ssl.SSLContext) -> bool:
    """Whether `openssl.cnf` is in force, which OpenSSL reads when it is loaded."""
    return context.get_ciphers()[0]["name"] in SUITES


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """In memory: OpenSSL takes a path, and the task's disk is read-only."""
    with os.fdopen(os.memfd_create("identity"), "w") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


class TlsChannel:
    """The server's side of one connection. Each method but `close` raises `ChannelClosedError`, and is bounded by its caller."""

    __slots__ = ("_incoming", "_outgoing", "_reader", "_tls", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader, self._writer = reader, writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def handshake(self) -> None:
        await self._until_done(self._tls.do_handshake)
        cipher = self._tls.cipher()
        if cipher is None or cipher[0] not in SUITES:
            raise ChannelClosedError("another suite")

    @property
    def socket(self) -> TransportSocket:
        socket: TransportSocket = self._writer.get_extra_info("socket")
        return socket

    @property
    def session_id(self) -> bytes:
        """The same at both ends, and another one in each session."""
        binding = self._tls.get_channel_binding("tls-unique")
        if not binding:
            raise ChannelClosedError("no binding")
        return binding

    @property
    def has_alpn(self) -> bool:
        return self._tls.selected_alpn_protocol() == ALPN

    async def read(self, count: int) -> bytes:
        """Exactly so many bytes."""
        read = bytearray()
        while len(read) < count:
            missing = count - len(read)
            read += await self._until_done(partial(self._read_some, missing))
        return bytes(read)

    def _read_some(self, most: int) -> bytes:
        some = self._tls.read(most)
        if not some:
            raise ChannelClosedError("the end")
        return some

    async def write(self, content: bytes) -> None:
        await self._until_done(partial(self._tls.write, content))

    async def close(self) -> None:
        """Say so to the other side, and wait until it has closed as well: else TCP might take back what was sent last."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        with suppress(OSError):
            await self._flush()
            self._writer.write_eof()
            while await self._reader.read(READ_BYTES):
                pass

    async def _until_done[Result](self, operation: Callable[[], Result]) -> Result:
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except ssl.SSLError as error:
                await self._send_alert()
                raise ChannelClosedError(error.reason) from None
            else:
                await self._flush()
                return result

    async def _fill(self) -> None:
        try:
            some = await self._reader.read(READ_BYTES)
        except OSError:
            some = b""
        if not some:
            raise ChannelClosedError("the end")
        self._incoming.write(some)

    async def _flush(self) -> None:
        if self._outgoing.pending:
            try:
                self._writer.write(self._outgoing.read())
                await self._writer.drain()
            except OSError:
                raise ChannelClosedError("the end") from None

    async def _send_alert(self) -> None:
        """The one that OpenSSL has left, if it can be sent."""
        with suppress(ChannelClosedError):
            await self._flush()
