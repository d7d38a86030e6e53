"""Items: what a push reports of messages, one for each queue.

    smp://<identity>@host[,host …][:port]/<notifier id> seconds nonce metadata[;…]

nonce and metadata as the SMP server sent them, in base64url with its padding. Devices acknowledge nothing, so each push
repeats what it has room for. The app leaves out what it has by the times within the metadata, but for the last item.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from clarion.networks.simplex.addresses import SmpQueue, padded_base64url
from clarion.networks.simplex.arrived import MessageArrived

MOST_ITEMS = 6


@dataclass(frozen=True, slots=True)
class QueueItem:
    """The newest message of a queue; `sent_at` is when it was read from its server, in UNIX seconds."""

    queue: SmpQueue
    sent_at: int
    message: MessageArrived = field(repr=False)

    @property
    def text(self) -> str:
        encoded = map(padded_base64url, (self.message.nonce, self.message.metadata))
        return " ".join((self.queue.uri, str(self.sent_at), *encoded))


def newest_items(items: Iterable[QueueItem], room: int) -> bytes:
    """The newest of each queue, as many as fit into `room` bytes, the oldest first."""
    newest = {item.queue: item for item in sorted(items, key=_sent_at)}
    texts = [item.text.encode() for item in sorted(newest.values(), key=_sent_at)[-MOST_ITEMS:]]
    return b";".join(_last_that_fit(texts, room))


def _sent_at(item: QueueItem) -> int:
    return item.sent_at


def _last_that_fit(texts: Sequence[bytes], room: int) -> Sequence[bytes]:
    """With a separator between any two."""
    used = accumulate(len(text) + 1 for text in reversed(texts))
    count = sum(bytes_used - 1 <= room for bytes_used in used)
    return texts[len(texts) - count :]
