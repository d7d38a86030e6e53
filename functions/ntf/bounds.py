"""How much of a task anybody gets: all together, one network address, one connection.

What an address has is shared by its connections, as what the task has is by addresses: who asks for more than that waits
behind the others, and keeps none of them waiting.

An agent keeps one connection while its app is open, sends a handful of commands once a day, and some hundreds when it
subscribes to all of its queues anew. Phones of one carrier may share an address.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network

from ntf.pace import Pace
from ntf.settings import NtfBounds
from ntf.turns import Turns

MOST_PEERS = 20_000
"""That are remembered: those that were away longest are forgotten first, so that addresses alone take no memory."""
_CUSTOMER_BITS = 64
"""Of an address of IPv6, which a customer has at least."""
HOUR = 3600


@dataclass(slots=True, eq=False, weakref_slot=True)
class Peer:
    """What one address has of a task: new connections, commands, and registrations of tokens.

    `name` is the address, or its network's.
    """

    name: str
    connecting: Pace
    sending: Pace
    registering: Pace
    blocks_at_once: int
    connections: int = 0
    _turns: Turns[Hashable] | None = None

    @classmethod
    def of(cls, name: str, bounds: NtfBounds) -> "Peer":
        return cls(
            name,
            connecting=Pace(bounds.connections_per_second, bounds.connections_per_peer),
            sending=Pace(bounds.peer_commands_per_second, bounds.peer_burst),
            registering=Pace(bounds.registrations_per_hour / HOUR, bounds.registrations_at_once),
            blocks_at_once=bounds.blocks_at_once,
        )

    @property
    def turns(self) -> Turns[Hashable]:
        """By which its connections share what it may send."""
        if self._turns is None:
            self._turns = Turns(self.blocks_at_once, self.sending)
        return self._turns

    @contextmanager
    def connection(self) -> Iterator[None]:
        """While there is none, only what is to be remembered is kept."""
        self.connections += 1
        try:
            yield
        finally:
            self.connections -= 1
            if not self.connections:
                self._turns = None


class TooManyError(Exception):
    """For this task, or for this peer."""


@dataclass(slots=True)
class FairPlaces:
    """`most` at once. If all are taken, the address with most of them gives its oldest to one that has fewer."""

    most: int
    _taken: dict[Callable[[], None], Peer] = field(default_factory=dict)
    """By what ends whoever has the place, the oldest first."""
    _of_peers: Counter[Peer] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self._taken)

    def of(self, peer: Peer) -> int:
        return self._of_peers[peer]

    @contextmanager
    def place(self, peer: Peer, end: Callable[[], None]) -> Iterator[None]:
        """`end` is called if another address gets it."""
        self._taken[end] = peer
        self._of_peers[peer] += 1
        try:
            yield
        finally:
            self._free(end)

    def would_give_way(self, peer: Peer) -> bool:
        """Whether another address has more of them than `peer` would have with one more."""
        return bool(self._taken) and self.of(self._greediest) > self.of(peer) + 1

    def end_oldest(self) -> None:
        """Of whoever has most."""
        greediest = self._greediest
        end = next(end for end, peer in self._taken.items() if peer is greediest)
        self._free(end)
        end()

    @property
    def _greediest(self) -> Peer:
        return max(self._of_peers, key=self.of)

    def _free(self, end: Callable[[], None]) -> None:
        """Unless it was given away before."""
        if peer := self._taken.pop(end, None):
            self._of_peers[peer] -= 1
            if not self._of_peers[peer]:
                del self._of_peers[peer]


class Peers:
    def __init__(self, bounds: NtfBounds) -> None:
        self.bounds = bounds
        self.connections = 0
        self.handshakes = FairPlaces(bounds.handshakes)
        """Connections that have not said hello yet."""
        self.sessions = FairPlaces(bounds.connections)
        """Those that have."""
        self.registering = Pace(bounds.task_registrations_per_hour / HOUR, bounds.task_registrations_at_once)
        """Tokens of all of them."""
        self._peers = OrderedDict[str, Peer]()

    def __len__(self) -> int:
        return len(self._peers)

    @contextmanager
    def connection(self, address: str, now: float) -> Iterator[Peer]:
        """Counts one connection. Raises `TooManyError`.

        For moments there may be more than the bound: a session that had to make room answers first what it has read.
        """
        bounds, peer = self.bounds, self._peer(_customer(address))
        if peer.connections >= bounds.connections_per_peer or self.handshakes.of(peer) >= bounds.handshakes_per_peer:
            raise TooManyError
        if not peer.connecting.take(now):
            raise TooManyError
        self._make_room_for(peer)
        self.connections += 1
        try:
            with peer.connection():
                yield peer
        finally:
            self.connections -= 1

    def _make_room_for(self, peer: Peer) -> None:
        """Raises `TooManyError`: then nobody was ended for it."""
        taken = (self.handshakes, len(self.handshakes)), (self.sessions, self.connections)
        full = [places for places, count in taken if count >= places.most]
        if not all(places.would_give_way(peer) for places in full):
            raise TooManyError
        for places in full:
            places.end_oldest()

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
