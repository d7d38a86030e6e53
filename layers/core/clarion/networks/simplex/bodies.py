"""What a push is made of: the newest messages of its subscription, one for each queue, as `clarion.newest` keeps them."""

from collections.abc import Collection, Sequence

from pydantic import BaseModel, ConfigDict, Field

from clarion import newest
from clarion.networks import Envelope, Newest, Row
from clarion.networks.simplex.bounds import NEWEST_SECONDS
from clarion.networks.simplex.envelope import QueueMessage, decode
from clarion.networks.simplex.items import MOST_ITEMS, QueueItem, fitting

DELAY_SECONDS = 1
"""What comes within it goes with the same push: SMP servers report what has arrived every second and a half."""
KEPT_ITEMS = 2 * MOST_ITEMS
"""In a row: so many that what comes before a push is sent seldom has to make room."""


class NewestItems(BaseModel):
    """`messages` are raw envelopes."""

    model_config = ConfigDict(frozen=True)

    messages: tuple[bytes, ...] = Field(repr=False)

    @property
    def items(self) -> Sequence[QueueItem]:
        """Raises `Malformed`."""
        return [decode(raw).item for raw in self.messages]


def queue_message(envelope: Envelope) -> QueueMessage:
    if not isinstance(envelope.content, QueueMessage):
        raise TypeError("no envelope of SimpleX")
    return envelope.content


def body_of(row: Row) -> NewestItems | None:
    items = newest.chosen(newest.read(row), NEWEST)
    return NewestItems(messages=tuple(item.raw for item in items)) if items else None


def _name_of(envelope: Envelope) -> str:
    """Eight digits tell the thousand queues of a token apart: of two that share them, the later one's message stays."""
    return queue_message(envelope).queue_key.hex()[:8]


def _server_of(raw: bytes) -> bytes:
    """By its fingerprint alone: it may have many addresses."""
    return decode(raw).item.queue.server.identity


def _fitting(messages: Sequence[bytes]) -> Collection[bytes]:
    by_item = {decode(raw).item: raw for raw in messages}
    return {by_item[item] for item in fitting(by_item)}


NEWEST = Newest(
    most=MOST_ITEMS,
    kept=KEPT_ITEMS,
    delay_seconds=DELAY_SECONDS,
    life_seconds=NEWEST_SECONDS,
    name_of=_name_of,
    raw_of=lambda envelope: queue_message(envelope).raw,
    group_of=_server_of,
    fitting=_fitting,
)
