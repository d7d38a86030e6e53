"""Ports that stay a server's own while it is away."""

from contextlib import ExitStack
from weakref import finalize

from local.ports import reserved_port


def reserve_port(owner: object) -> int:
    """A port of 127.0.0.1 that nobody else is given while `owner` lives, whether it listens there or not."""
    held = ExitStack()
    port = held.enter_context(reserved_port())
    finalize(owner, held.close)
    return port
