"""An arrived message on its way through the kernel, as its source makes it.

    version (1) ++ read at, in UNIX seconds (8 bytes) ++ nonce (24) ++ metadata (short string) ++ queue

An SMP server keeps what it has not handed over for a day, so an arrival is of no use after that.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256

from clarion.networks.simplex.addresses import SmpQueue, read_queue
from clarion.networks.simplex.encoding import MalformedSimplex, Reader, short, word64
from clarion.networks.simplex.items import MESSAGE_NONCE_BYTES, MessageArrived, QueueItem
from clarion.networks.simplex.rules import queue_key

LIFETIME_SECONDS = 86_400
_VERSION = b"\1"
_REMEMBERED = 1_024
"""Half a KB each."""
_LATEST = 1 << 40
"""No source's clock shows this."""


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """`item` is what its receiver is sent of it. `raw` is the whole as it came."""

    item: QueueItem
    raw: bytes = field(repr=False)

    @property
    def queue_key(self) -> bytes:
        return queue_key(self.item.queue)

    @property
    def id(self) -> bytes:
        """A server that sends a message again does so with the same nonce."""
        return sha256(self.queue_key + self.item.message.nonce).digest()

    @property
    def expires_at(self) -> int:
        return self.item.read_at + LIFETIME_SECONDS


def encode(queue: SmpQueue, read_at: int, message: MessageArrived) -> bytes:
    """`read_at` is when it was read from its server, in UNIX seconds."""
    return _VERSION + word64(read_at) + message.nonce + short(message.metadata) + queue.encoded


@lru_cache(_REMEMBERED)
def decode(raw: bytes) -> QueueMessage:
    """Each push reads all that its row holds several times, and the next one again. Raises `MalformedSimplex`."""
    reader = Reader(raw)
    reader.expect(_VERSION)
    read_at, message = reader.word64(), MessageArrived(reader.take(MESSAGE_NONCE_BYTES), reader.short())
    queue = read_queue(reader)
    reader.end()
    if not message.metadata or read_at > _LATEST:
        raise MalformedSimplex("without metadata, or of no time")
    return QueueMessage(QueueItem(queue, read_at, message), raw)
