"""The WebSocket to a node, with bounds on what the node can make this process do.

The library bounds the size of a message, its fragments, and how many wait to be read. Added here:

- No redirect is followed: a node is who the configuration names.
- Frames have to be large enough on average. A segment of 256 KB may hold 131,072 empty pings or messages, and the
  library handles all of a segment at once: the event loop would stand still for seconds.
- Answers to pings are not collected without bound for a node that doesn't read them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Final, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.frames import Frame
from websockets.http11 import Request, Response

from ingest.sources import SourceFault, SourceLost

MAX_FRAME: Final = 16 * 1024 * 1024
"""A node's largest batch, 4 MiB of statements in hex and their JSON, several times over."""
MOST_UNREAD: Final = 1
"""Messages that wait to be taken in before reading stops: two can wait, the rest waits on the node's side."""
_PIECE_BYTES = 4096
_FRAMES_PER_PIECE = 32
"""The smallest notification of a statement has more than 300 bytes."""
_UNSENT_BYTES = 65_536
"""Our own requests have some hundred bytes, so only a node that doesn't read has so much to come."""
_CLOSE_SECONDS = 2.0


class BoundedConnection(ClientConnection):
    """`overrun` says by what the node exceeded a bound; the connection is cut then."""

    overrun: str | None = None
    _frames = 0

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE_BYTES):
            self._frames = 0
            super().data_received(data[start : start + _PIECE_BYTES])
            if self._frames > _FRAMES_PER_PIECE:
                self._cut("too many small frames")
            elif self.transport.get_write_buffer_size() > _UNSENT_BYTES:
                self._cut("it doesn't read")
            if self.overrun:
                return

    def process_event(self, event: Frame | Request | Response) -> None:
        self._frames += 1
        super().process_event(event)

    def _cut(self, overrun: str) -> None:
        self.overrun = overrun
        self.transport.abort()


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception:
        """Follow none, and don't read where it leads."""
        return exc


async def open_connection(
    url: str, *, most_bytes: int = MAX_FRAME, certificates: SSLContext | None = None
) -> BoundedConnection:
    """`most_bytes` of a message; without `certificates`, the public authorities'. Raise what the library raises."""
    connection = await _Connect(
        url,
        ssl=certificates,
        create_connection=BoundedConnection,
        max_size=most_bytes,
        max_queue=MOST_UNREAD,
        compression=None,
        close_timeout=_CLOSE_SECONDS,
    )
    return cast("BoundedConnection", connection)


@contextmanager
def blaming_the_node(socket: BoundedConnection | None = None) -> Iterator[None]:
    """Whatever is raised inside, but a cancellation, the node has caused: raise it as `SourceFault`."""
    try:
        yield
    except SourceFault:
        raise
    except (OSError, WebSocketException) as error:
        if socket and socket.overrun:
            raise SourceFault(socket.overrun) from None
        raise SourceLost(type(error).__name__) from None
    except Exception as error:  # of any type: it is what a library, or we, make of what a node sends
        raise SourceFault(type(error).__name__) from error
