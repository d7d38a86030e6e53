"""Ports that stay a server's own while it is away."""

import socket
import sys
from weakref import finalize


def reserve_port(owner: object) -> int:
    """A port of 127.0.0.1 that the system gives to nobody else while `owner` lives, whether a server listens on it or not.

    It is bound and not listened on: who connects is refused, and a server with SO_REUSEADDR that asks for this very port
    gets it. Only Linux lets it: elsewhere nothing holds the port.
    """
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    port: int = bound.getsockname()[1]
    if sys.platform != "linux":
        bound.close()
    finalize(owner, bound.close)
    return port
