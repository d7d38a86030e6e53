"""What a statement store node keeps: it admits, replaces and forgets statements as polkadot-sdk does."""

import heapq
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from clarion.networks.statements.codec import MAX_SIZE, MalformedStatement, Statement, decode
from local.proofs import proves

_CAPACITY = 4_194_304
_NEVER = (1 << 32) - 1


class Verdict(NamedTuple):
    """How a submission ended, in the words of `statement_submit`."""

    status: str
    reason: str | None = None


class Kept(NamedTuple):
    """A statement as the node holds it. `slot` is the signer's channel, if it has one."""

    raw: bytes
    topics: frozenset[bytes]
    expiry: int
    slot: tuple[bytes, bytes] | None


NEW = Verdict("new")
KNOWN = Verdict("known")


class StatementPool:
    """`relay_unverified` admits what has no proof or a wrong one, as nodes that only relay may do.

    Expired statements go when the pool is next asked for anything: there is no timer.
    """

    def __init__(
        self, *, relay_unverified: bool = False, capacity: int = _CAPACITY, now: Callable[[], float] = time.time
    ) -> None:
        self._relay_unverified = relay_unverified
        self._capacity = capacity
        self._now = now
        self._kept: dict[bytes, Kept] = {}
        self._slots: dict[tuple[bytes, bytes], bytes] = {}
        self._expiring: list[tuple[int, bytes]] = []

    def __len__(self) -> int:
        self._forget_expired()
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        self._forget_expired()
        return iter(self._kept.values())

    def submit(self, raw: bytes) -> tuple[Verdict, Kept | None]:
        """The verdict, and the statement if it is new. Raises `MalformedStatement`."""
        if len(raw) > MAX_SIZE:
            return Verdict("invalid", "encodingTooLarge"), None
        self._forget_expired()
        statement = decode(raw)
        number = _hash(raw)
        if number in self._kept:
            return KNOWN, None
        kept = _kept(raw, statement)
        flaw = self._flaw(statement) or self._conflict(kept)
        if flaw:
            return flaw, None
        self._keep(number, kept)
        return NEW, kept

    def inject(self, raw: bytes) -> Kept:
        """Keeps whatever it is, unchecked, even bytes that are no statement."""
        try:
            kept = _kept(raw, decode(raw))
        except MalformedStatement:
            kept = Kept(raw, frozenset(), _NEVER << 32, None)
        self._keep(_hash(raw), kept)
        return kept

    def _flaw(self, statement: Statement) -> Verdict | None:
        if statement.proof is None and not self._relay_unverified:
            return Verdict("invalid", "noProof")
        if statement.expires_at <= self._now():
            return Verdict("invalid", "alreadyExpired")
        if not self._relay_unverified and not proves(statement):
            return Verdict("invalid", "badProof")
        return None

    def _conflict(self, kept: Kept) -> Verdict | None:
        rival = self._kept.get(self._slots.get(kept.slot, b"")) if kept.slot else None
        if rival and rival.expiry >= kept.expiry:
            return Verdict("rejected", "channelPriorityTooLow")
        if rival is None and len(self._kept) >= self._capacity:
            return Verdict("rejected", "storeFull")
        return None

    def _keep(self, number: bytes, kept: Kept) -> None:
        if kept.slot:
            replaced = self._slots.get(kept.slot)
            if replaced is not None and replaced != number:
                self._kept.pop(replaced, None)
            self._slots[kept.slot] = number
        self._kept[number] = kept
        expires_at = kept.expiry >> 32
        if expires_at < _NEVER:
            heapq.heappush(self._expiring, (expires_at, number))

    def _forget_expired(self) -> None:
        now = self._now()
        while self._expiring and self._expiring[0][0] <= now:
            _, number = heapq.heappop(self._expiring)
            kept = self._kept.pop(number, None)
            if kept and kept.slot and self._slots.get(kept.slot) == number:
                del self._slots[kept.slot]


def _kept(raw: bytes, statement: Statement) -> Kept:
    signer, channel = statement.signer, statement.channel
    slot = (signer, channel) if signer is not None and channel is not None else None
    return Kept(raw, frozenset(statement.topics), statement.expiry, slot)


def _hash(raw: bytes) -> bytes:
    return blake2b(raw, digest_size=32).digest()
