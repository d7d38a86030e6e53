"""How much of a task anybody gets: all together, one network address, one connection.

An agent keeps one connection while its app is open, sends a handful of blocks once a day, and some hundreds when it
subscribes to all of its queues anew. Phones of one carrier may share an address.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network

from ntf.settings import NtfBounds

MOST_PEERS = 20_000
"""That are remembered: those that were away longest are forgotten first, so that addresses alone take no memory."""
_CUSTOMER_BITS = 64
"""Of an address of IPv6, which a customer has at least."""


@dataclass(slots=True)
class Pace:
    """At most `burst` at once, and then `per_second`. Times are in seconds, of any clock that never goes back."""

    per_second: float
    burst: int
    _whole_at: float = 0.0
    """When the whole burst is there again."""

    def wait(self, now: float) -> float:
        """Seconds until the next one may go, which is counted."""
        start = max(self._whole_at, now)
        self._whole_at = start + 1 / self.per_second
        return max(0.0, start - now - self._tolerance)

    def take(self, now: float) -> bool:
        """Whether the next one may go now; it is counted if so."""
        if self._whole_at - now > self._tolerance:
            return False
        self.wait(now)
        return True

    @property
    def _tolerance(self) -> float:
        return (self.burst - 1) / self.per_second


@dataclass(slots=True)
class Peer:
    """What one address has of a task; `name` is the address, or its network's."""

    name: str
    connecting: Pace
    sending: Pace
    connections: int = 0
    handshakes: int = 0


class TooManyError(Exception):
    """For this task, or for this peer."""


@dataclass(slots=True)
class Peers:
    bounds: NtfBounds
    connections: int = 0
    handshakes: int = 0
    """Connections that have not said hello yet."""
    _peers: OrderedDict[str, Peer] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._peers)

    @contextmanager
    def connection(self, address: str, now: float) -> Iterator[Peer]:
        """Counts one connection. Raises `TooManyError`."""
        bounds, peer = self.bounds, self._peer(_customer(address))
        if self.connections >= bounds.connections or self.handshakes >= bounds.handshakes:
            raise TooManyError
        if peer.connections >= bounds.connections_per_peer or peer.handshakes >= bounds.handshakes_per_peer:
            raise TooManyError
        if not peer.connecting.take(now):
            raise TooManyError
        self.connections += 1
        peer.connections += 1
        try:
            yield peer
        finally:
            self.connections -= 1
            peer.connections -= 1

    @contextmanager
    def handshake(self, peer: Peer) -> Iterator[None]:
        self.handshakes += 1
        peer.handshakes += 1
        try:
            yield
        finally:
            self.handshakes -= 1
            peer.handshakes -= 1

    def _peer(self, address: str) -> Peer:
        if address not in self._peers:
            bounds = self.bounds
            connecting = Pace(bounds.connections_per_second, bounds.connections_per_peer)
            self._peers[address] = Peer(address, connecting, Pace(bounds.peer_blocks_per_second, bounds.peer_burst))
            self._forget()
        self._peers.move_to_end(address)
        return self._peers[address]

    def _forget(self) -> None:
        if len(self._peers) > MOST_PEERS:
            away = next((address for address, peer in self._peers.items() if not peer.connections), None)
            if away is not None:
                del self._peers[away]


def _customer(address: str) -> str:
    known = ip_address(address.partition("%")[0])
    if isinstance(known, IPv6Address) and known.ipv4_mapped is None:
        return str(ip_network((known, _CUSTOMER_BITS), strict=False))
    return address
