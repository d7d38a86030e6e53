"""The messages that a relay has sent lately, so that a repeated one goes to the queue once.

    first sent ──▶ being queued ──queued──▶ taken
                       │ sent again: acknowledged    │ sent again: acknowledged at once
                       └ when it is queued           └

The relay sends a message again until it is acknowledged, and after a connection that broke also some that were. A message
that another task has queued, now or before, is recognized by the worker.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable

REMEMBERED = 65_536
"""Messages that the queue has, at some 150 bytes each."""

MOST_REPEATED = 100
"""So often is one message acknowledged that is yet to be queued, however often the relay sends it meanwhile."""

type MessageDigest = bytes
"""See `commands.message_digest`."""


class RecentMessages:
    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._on_their_way: defaultdict[MessageDigest, list[Callable[[], None]]] = defaultdict(list)
        """What acknowledges them."""
        self._taken: OrderedDict[MessageDigest, None] = OrderedDict()
        """The oldest first."""

    def add(self, message: MessageDigest, acknowledge: Callable[[], None]) -> bool:
        """Whether it is new. `acknowledge` is called once the queue has it."""
        if message in self._taken:
            acknowledge()
            return False
        is_new, waiting = message not in self._on_their_way, self._on_their_way[message]
        if len(waiting) < MOST_REPEATED:
            waiting.append(acknowledge)
        return is_new

    def queued(self, message: MessageDigest) -> None:
        """The queue has it."""
        for acknowledge in self._on_their_way.pop(message):
            acknowledge()
        self._taken[message] = None
        if len(self._taken) > self._remembered:
            self._taken.popitem(last=False)
