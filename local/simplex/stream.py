"""Blocks of one size over TLS, and the session that both ends know by the same bytes."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from local.simplex.codec import WireFault, padded, unb64, unpadded
from local.simplex.identity import client_context

SMP_BLOCK, NTF_BLOCK = 16_384, 512
SMP_ALPN, NTF_ALPN = "smp/1", "ntf/1"
_CLOSE_S = 1.0


class ConnectionLostError(Exception):
    """The other end has closed, or cannot be reached."""


@dataclass(frozen=True)
class SimplexAddress:
    """A server as its clients are given it: `ntf://<key hash>@<host>[,<host>…][:<port>]`."""

    key_hash: bytes
    hosts: tuple[str, ...]
    port: str

    @classmethod
    def parsed(cls, text: str) -> Self:
        _, separator, rest = text.partition("://")
        key_hash, at, place = rest.partition("@")
        hosts, _, port = place.partition(":")
        if not (separator and at and hosts):
            raise WireFault("no address of a server")
        return cls(unb64(key_hash), tuple(hosts.split(",")), port)


class BlockStream:
    """One end of a connection; a block may be written by one task while another reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int) -> None:
        self.size = size
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connected(cls, host: str, port: int, size: int, protocol: str | None) -> Self:
        """Without a server name in the handshake, as the reference has it; raises `ConnectionLostError`."""
        try:
            streams = await asyncio.open_connection(host, port, ssl=client_context(protocol), server_hostname="")
        except (OSError, ssl.SSLError) as error:
            raise ConnectionLostError(str(error)) from error
        return cls(*streams, size)

    @property
    def protocol(self) -> str | None:
        """What ALPN has agreed on."""
        return self._tls.selected_alpn_protocol()

    @property
    def session_id(self) -> bytes:
        """The client's TLS Finished."""
        return self._tls.get_channel_binding("tls-unique") or b""

    @property
    def certificates(self) -> Sequence[bytes]:
        """Those that the server has shown, in DER, its own first."""
        return self._tls.get_unverified_chain()

    @property
    def _tls(self) -> ssl.SSLObject:
        tls: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return tls

    async def read(self) -> bytes:
        """The content of the next block; raises `ConnectionLostError`."""
        try:
            return unpadded(await self._reader.readexactly(self.size))
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ConnectionLostError("the connection has ended") from error

    async def write(self, *contents: bytes) -> None:
        try:
            self._writer.writelines(padded(content, self.size) for content in contents)
            await self._writer.drain()
        except OSError as error:
            raise ConnectionLostError("the connection has ended") from error

    def abort(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
