"""What SMP servers report of arrived messages, and items: what a push reports of them, one for each queue.

    smp://<identity>@host[,host …][:port]/<notifier id> seconds nonce metadata[;…]

nonce and metadata as the SMP server sent them, in base64url with its padding. Devices acknowledge nothing, so each push
repeats what it has room for. The app leaves out what it has by the times within the metadata, but for the last item.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from clarion.networks.simplex.addresses import SmpQueue, padded_base64url

MESSAGE_NONCE_BYTES = 24
MOST_METADATA_BYTES = 144
"""An id and a time, padded to 128 bytes, and the tag of their encryption."""
MOST_ITEMS = 6
PADDED_BYTES = 2912
"""The most with which a message has no more than Apple's 4,096 bytes. Apps read whatever size there is."""
ROOM_BYTES = PADDED_BYTES - 2
"""For what is padded, beside its length."""


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """As an SMP server reports it to a notifier. Only the queue's receiver can read the metadata."""

    nonce: bytes = field(repr=False)
    metadata: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class QueueItem:
    """The newest message of a queue; `read_at` is when it was read from its server, in UNIX seconds."""

    queue: SmpQueue
    read_at: int
    message: MessageArrived = field(repr=False)

    @property
    def text(self) -> str:
        encoded = map(padded_base64url, (self.message.nonce, self.message.metadata))
        return " ".join((self.queue.uri, str(self.read_at), *encoded))


def joined(items: Iterable[QueueItem]) -> bytes:
    """What a message says, the oldest first."""
    return ";".join(item.text for item in sorted(items, key=_read_at)).encode()


def fitting(items: Iterable[QueueItem], room: int = ROOM_BYTES) -> Iterator[QueueItem]:
    """Up to `MOST_ITEMS` that one message has room for, with a separator between any two: the first ones first.

    One that is too large for what is left is passed over.
    """
    count = 0
    for item in items:
        size = len(item.text) + (count > 0)
        if count < MOST_ITEMS and size <= room:
            count, room = count + 1, room - size
            yield item


def _read_at(item: QueueItem) -> int:
    return item.read_at
