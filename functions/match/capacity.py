"""How much one invocation matches at most; the rest goes into further messages."""

from clarion.networks import network
from match.fan_out import Page
from match.item import Item

PAGES = 8
"""How many pages of subscriptions it matches at most."""
HASHED_BYTES = 256 * 1024 * 1024
"""How much it has networks hash at most: an eighth of a second of a processor."""


class Capacity:
    """What one invocation has left, for as many items as there are."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._subscriptions = PAGES * page_size
        self._bytes = HASHED_BYTES

    def page_size(self, item: Item) -> int:
        """How many subscriptions a page of the item has: one at least, so that it gets on."""
        return max(1, min(self._page_size, self._bytes // max(1, _bytes_per_subscription(item))))

    def left(self, item: Item) -> int:
        """How many of the item's subscriptions there is capacity for."""
        if self._bytes == HASHED_BYTES:
            return self._subscriptions
        return min(self._subscriptions, self._bytes // max(1, _bytes_per_subscription(item)))

    def take(self, item: Item, page: Page) -> None:
        taken = len(page.subscription_ids | set(filter(page.covers, item.named)))
        self._subscriptions -= taken
        self._bytes -= taken * _bytes_per_subscription(item)


def _bytes_per_subscription(item: Item) -> int:
    return len(item.envelope.keys) * network(item.envelope.network).bytes_per_rule(item.envelope)
