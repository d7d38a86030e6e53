"""Commands and answers as they travel: authorised one by one, and several in a block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import urandom
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from local.simplex.codec import WireFault, WireReader, large, several, short
from local.simplex.keys import NONCE, AuthKey, authorization

RESERVED = 19
"""Bytes of a block that transmissions leave free: two of its length, one of their count, and sixteen."""
_MOST = 255


@dataclass(frozen=True)
class WireTransmission:
    """`entity` is what the command is about: a token, a subscription, a queue. Events of a server correlate with nothing."""

    command: bytes
    entity: bytes = b""
    correlation: bytes = b""
    auth: bytes = b""

    @classmethod
    def asking(cls, command: bytes, entity: bytes = b"") -> Self:
        return cls(command, entity, urandom(NONCE))

    def authorized(self, session: bytes) -> bytes:
        """What is signed: it holds for this session alone."""
        return short(session) + self._content

    def by(self, key: AuthKey, session: bytes, server: X25519PublicKey | None = None) -> Self:
        """Authorised by `key`."""
        auth = authorization(key, self.authorized(session), self.correlation, server)
        return replace(self, auth=auth)

    def encoded(self, session: bytes | None = None) -> bytes:
        """With the session's id only where it is not implied: before version 2 of NTF."""
        return short(self.auth) + (b"" if session is None else short(session)) + self._content

    @classmethod
    def decoded(cls, raw: bytes, session: bytes | None = None) -> Self:
        reader = WireReader(raw)
        auth = reader.short()
        if session is not None and reader.short() != session:
            raise WireFault("of another session")
        correlation, entity = reader.short(), reader.short()
        return cls(reader.rest(), entity, correlation, auth)

    @property
    def _content(self) -> bytes:
        return short(self.correlation) + short(self.entity) + self.command


def block_contents(transmissions: Sequence[WireTransmission], size: int) -> Iterator[bytes]:
    """As many in each block of `size` bytes as there is room for; raises `WireFault` for one that fits none."""
    batch, room = list[bytes](), size - RESERVED
    for each in map(large, map(WireTransmission.encoded, transmissions)):
        if len(each) > size - RESERVED:
            raise WireFault(f"a transmission of {len(each)} bytes does not fit a block of {size}")
        if len(each) > room or len(batch) == _MOST:
            yield several(batch)
            batch, room = [], size - RESERVED
        batch.append(each)
        room -= len(each)
    if batch:
        yield several(batch)


def transmissions_in(content: bytes) -> list[WireTransmission]:
    reader = WireReader(content)
    found = reader.several(reader.large)
    reader.end()
    return [WireTransmission.decoded(each) for each in found]
