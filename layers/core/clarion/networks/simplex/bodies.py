"""What a push is made of: the newest messages of its subscription, one for each queue, as `clarion.newest` keeps them."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from clarion import newest
from clarion.networks import Row
from clarion.networks.simplex.envelope import QueueMessage, decode
from clarion.networks.simplex.items import QueueItem


class NewestItems(BaseModel):
    """`messages` are raw envelopes."""

    model_config = ConfigDict(frozen=True)

    messages: tuple[bytes, ...] = Field(repr=False)

    @property
    def items(self) -> Sequence[QueueItem]:
        """Raises `Malformed`."""
        return [decode(raw).item for raw in self.messages]


def name_of(message: QueueMessage) -> str:
    """Eight digits tell the thousand queues of a token apart: of two that share them, the later one's message stays."""
    return message.queue_key.hex()[:8]


def body_of(row: Row) -> NewestItems | None:
    items = newest.read(row).items
    return NewestItems(messages=tuple(item.raw for item in items)) if items else None
