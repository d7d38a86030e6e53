"""What a peer that does as it likes costs a connection: no memory, and no other part of the task its turn."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path

import pytest

from clarion.networks.simplex.blocks import SMP_BLOCK_BYTES
from clarion.tls_stream import TlsStream
from ingest.sources.simplex.handshake import client_context
from tests.ingest.simplex.smp_server import Chain

type Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def connected(folder: Path, serve: Serve, tickets: int = 0) -> AsyncIterator[TlsStream]:
    """`tickets` are those that the server hands out after the handshake."""
    context = Chain(folder).context
    context.num_tickets = tickets
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server, asyncio.timeout(60):
        opened = socket.create_connection(server.sockets[0].getsockname())
        opened.setblocking(False)
        stream = TlsStream(opened, client_context())
        try:
            await stream.handshake()
            yield stream
        finally:
            stream.close()


async def _send_bytes_one_by_one(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(SMP_BLOCK_BYTES):
        writer.write(b"x")
    await _end(writer)


async def _send_much(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(bytes(100 * SMP_BLOCK_BYTES))
    await _end(writer)


async def _end(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.drain()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_a_block_in_too_many_records_ends_the_connection(tmp_path: Path) -> None:
    async with connected(tmp_path, _send_bytes_one_by_one) as stream:
        with pytest.raises(ConnectionResetError):
            await stream.read(SMP_BLOCK_BYTES)


@pytest.mark.parametrize(("tickets", "ends"), [(2, False), (255, True)])
async def test_records_without_content_end_the_connection_if_they_are_many(
    tmp_path: Path, tickets: int, ends: bool
) -> None:
    async with connected(tmp_path, _send_much, tickets) as stream:
        with pytest.raises(ConnectionResetError) if ends else nullcontext():
            assert await stream.read(SMP_BLOCK_BYTES) == bytes(SMP_BLOCK_BYTES)


async def test_what_is_sent_ahead_waits_in_its_socket(tmp_path: Path) -> None:
    async with connected(tmp_path, _send_much) as stream:
        for _ in range(100):
            assert await stream.read(SMP_BLOCK_BYTES) == bytes(SMP_BLOCK_BYTES)
            assert stream._incoming.pending <= 4_096
