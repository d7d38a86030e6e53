"""A server that chops its blocks into records of a byte costs its connection, and no other part of the task its turn."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from clarion.networks.simplex.blocks import SMP_BLOCK_BYTES
from clarion.tls_stream import TlsStream
from ingest.sources.simplex.handshake import client_context
from tests.ingest.simplex.smp_server import Chain


async def _send_bytes_one_by_one(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(SMP_BLOCK_BYTES):
        writer.write(b"x")
    with suppress(OSError):
        await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_a_block_in_too_many_records_ends_the_connection(tmp_path: Path) -> None:
    server = await asyncio.start_server(_send_bytes_one_by_one, "127.0.0.1", 0, ssl=Chain(tmp_path).context)
    async with server, asyncio.timeout(60):
        connected = socket.create_connection(server.sockets[0].getsockname())
        connected.setblocking(False)
        stream = TlsStream(connected, client_context())
        try:
            await stream.handshake()
            with pytest.raises(ConnectionResetError):
                await stream.read(SMP_BLOCK_BYTES)
        finally:
            stream.close()
