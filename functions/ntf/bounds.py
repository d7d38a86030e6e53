"""How much of a task anybody gets: all together, one network address, one connection.

An agent keeps one connection while its app is open, sends a handful of commands once a day, and some hundreds when it
subscribes to all of its queues anew. Phones of one carrier may share an address.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network

from ntf.settings import NtfBounds

MOST_PEERS = 20_000
"""That are remembered: those that were away longest are forgotten first, so that addresses alone take no memory."""
_CUSTOMER_BITS = 64
"""Of an address of IPv6, which a customer has at least."""
_HOUR = 3600


@dataclass(slots=True)
class Pace:
    """At most `burst` at once, and then `per_second`. Times are in seconds, of any clock that never goes back."""

    per_second: float
    burst: int
    _whole_at: float = 0.0
    """When the whole burst is there again."""

    def until(self, now: float, count: int = 1) -> float:
        """Seconds until the last of the next `count` may go."""
        tolerance = (self.burst - 1) / self.per_second
        return max(0.0, max(self._whole_at, now) + (count - 1) / self.per_second - tolerance - now)

    def spend(self, now: float, count: int = 1) -> None:
        self._whole_at = max(self._whole_at, now) + count / self.per_second

    def take(self, now: float) -> bool:
        """Whether the next one may go now; it is counted if so."""
        may_go = not self.until(now)
        if may_go:
            self.spend(now)
        return may_go


@dataclass(slots=True, eq=False, weakref_slot=True)
class Peer:
    """What one address has of a task: new connections, commands, and registrations of tokens.

    `name` is the address, or its network's.
    """

    name: str
    connecting: Pace
    sending: Pace
    registering: Pace
    connections: int = 0
    handshakes: int = 0

    @classmethod
    def of(cls, name: str, bounds: NtfBounds) -> "Peer":
        return cls(
            name,
            connecting=Pace(bounds.connections_per_second, bounds.connections_per_peer),
            sending=Pace(bounds.peer_commands_per_second, bounds.peer_burst),
            registering=Pace(bounds.registrations_per_hour / _HOUR, bounds.registrations_at_once),
        )


class TooManyError(Exception):
    """For this task, or for this peer."""


@dataclass(slots=True)
class Peers:
    bounds: NtfBounds
    connections: int = 0
    handshakes: int = 0
    """Connections that have not said hello yet."""
    _shaking: dict[Callable[[], None], Peer] = field(default_factory=dict)
    """By what ends them, the oldest first."""
    _peers: OrderedDict[str, Peer] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._peers)

    @contextmanager
    def connection(self, address: str, now: float) -> Iterator[Peer]:
        """Counts one connection. Raises `TooManyError`."""
        bounds, peer = self.bounds, self._peer(_customer(address))
        if self.connections >= bounds.connections:
            raise TooManyError
        if peer.connections >= bounds.connections_per_peer or peer.handshakes >= bounds.handshakes_per_peer:
            raise TooManyError
        if not peer.connecting.take(now) or not self._has_room_for(peer):
            raise TooManyError
        self.connections += 1
        peer.connections += 1
        try:
            yield peer
        finally:
            self.connections -= 1
            peer.connections -= 1

    @contextmanager
    def handshake(self, peer: Peer, end: Callable[[], None]) -> Iterator[None]:
        """`end` is called if others need its place."""
        self._shaking[end] = peer
        self.handshakes += 1
        peer.handshakes += 1
        try:
            yield
        finally:
            self._forget_handshake(end)

    def _has_room_for(self, peer: Peer) -> bool:
        """For another handshake: if all are taken, the address with most of them gives its oldest to one with fewer."""
        if self.handshakes < self.bounds.handshakes:
            return True
        greedy = max(self._shaking.values(), key=lambda one: one.handshakes, default=peer)
        if greedy.handshakes <= peer.handshakes + 1:
            return False
        end = next(end for end, one in self._shaking.items() if one is greedy)
        self._forget_handshake(end)
        end()
        return True

    def _forget_handshake(self, end: Callable[[], None]) -> None:
        """Unless it gave its place away before."""
        if peer := self._shaking.pop(end, None):
            self.handshakes -= 1
            peer.handshakes -= 1

    def _peer(self, address: str) -> Peer:
        if address not in self._peers:
            self._peers[address] = Peer.of(address, self.bounds)
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
    if isinstance(known, IPv6Address):
        return str(known.ipv4_mapped or ip_network((known, _CUSTOMER_BITS), strict=False))
    return str(known)
