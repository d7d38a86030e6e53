"""A source as the intake knows it: its number, what it has shown so far, and its turn on the event loop."""

from clarion.networks import network as find_network
from ingest.sources import SourceFault, SourceSpec
from ingest.turn import Turn

_TOLERATED = 100
"""Malformed envelopes, below which no source is judged by their share."""
_TOLERATED_SHARE = 0.1
"""Nodes decode what they pass on. A later version of theirs may know fields that we don't, so some are tolerated."""


class Feed:
    """`number` is from 1 on, over the sources of all networks: by it, what they share is divided among them."""

    def __init__(self, number: int, network: str, spec: SourceSpec) -> None:
        self.number = number
        self.network = network
        self.network_number = bytes([find_network(network).number])
        self.identify, self.screen, self.is_timely = spec.identify, spec.screen, spec.is_timely
        self.exclusive = spec.exclusive
        self.turn = Turn()
        self._shown = self._malformed = 0

    def reset(self) -> None:
        """Forget what was counted: a new subscription begins."""
        self._shown = self._malformed = 0

    def count(self) -> None:
        """Count one envelope that it shows."""
        self._shown += 1

    def count_malformed(self, count: int) -> None:
        """Hold so many against it. Raise `SourceFault` if too much is malformed."""
        self._malformed += count
        if self._malformed > max(_TOLERATED, self._shown * _TOLERATED_SHARE):
            raise SourceFault("too much of what it shows is malformed")
