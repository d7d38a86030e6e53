"""Ports that are known before anything listens on them."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A free port, which the system gives to nobody else meanwhile. A server with SO_REUSEADDR can listen there.

    Only on Linux it can do so beside the socket that holds the port: elsewhere nothing does.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()
        yield port
