"""Serves the page on this machine alone, within the loop of the program that it belongs to."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import override

import uvicorn

from console.faults import Trouble
from console.page.app import HOST, PageBackend, app, new_token

_GRACE_S = 1
"""For those who look: their events would never end."""


class _Server(uvicorn.Server):
    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        """Signals are the program's."""
        yield


@asynccontextmanager
async def serving(backend: PageBackend, port: int = 0) -> AsyncIterator[str]:
    """The page's address. Port 0 is a free one. Raises `Trouble` where the port cannot be had."""
    token = new_token()
    # An access log would hold the token.
    config = uvicorn.Config(
        app(backend, token), access_log=False, log_level="critical", lifespan="off", timeout_graceful_shutdown=_GRACE_S
    )
    server = _Server(config)
    with _listening(port) as listening:
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
        finally:
            server.should_exit = True
            await task


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise Trouble(f"port {port} cannot be had: {error.strerror}; without --port a free one is taken") from error
