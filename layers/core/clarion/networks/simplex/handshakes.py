"""What both sides send first, each one block. Whatever follows in these blocks belongs to other versions.

    server   lowest version ++ highest ++ session id ++ certificates (SMP) ++ signed key (NTF from version 2 on, SMP)
    client   version ++ fingerprint of the identity that it expects

The session id is TLS's own (`tls-unique`), so that nothing signed in one session counts in another. SMP is spoken at
version 10 alone: blocks are not encrypted yet, nothing of services and proxies is sent, and a deleted queue is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clarion.networks.simplex.blocks import NTF_BLOCK_BYTES, SMP_BLOCK_BYTES, pad, unpad
from clarion.networks.simplex.encoding import MalformedSimplex, Reader, long, short, word16

SMP_VERSION = 10
BATCHES_VERSION = 2
"""From this version of NTF on there are batches and signed keys, and the session id is implied."""


class VersionRange(NamedTuple):
    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest


NTF_VERSIONS = VersionRange(1, 3)
NTF_VERSIONS_WITHOUT_ALPN = VersionRange(1, 1)


def ntf_server_hello(versions: VersionRange, session_id: bytes, signed_key: bytes) -> bytes:
    """The block that the NTF server begins with; `signed_key` as `sign_key` makes it."""
    hello = word16(versions.lowest) + word16(versions.highest) + short(session_id)
    key = long(signed_key) if versions.highest >= BATCHES_VERSION else b""
    return pad(hello + key, NTF_BLOCK_BYTES)


def agreed_version(client_hello: bytes, versions: VersionRange, identity: bytes) -> int:
    """The version that the client has chosen. Raises `MalformedSimplex` for whom the connection has to be closed."""
    reader = Reader(unpad(client_hello))
    version = reader.word16()
    if version not in versions:
        raise MalformedSimplex("a version that was not offered")
    if reader.short() != identity:
        raise MalformedSimplex("another server is expected")
    return version


@dataclass(frozen=True, slots=True)
class SmpServerHello:
    """`certificates` are a chain in DER, its leaf first; `signed_key` is for `signed_key.signed_key`."""

    certificates: Sequence[bytes]
    signed_key: bytes = field(repr=False)


def read_smp_server_hello(block: bytes, session_id: bytes) -> SmpServerHello:
    """Raises `MalformedSimplex`, also if the server is of another session, or doesn't speak our version."""
    reader = Reader(unpad(block))
    if SMP_VERSION not in VersionRange(reader.word16(), reader.word16()):
        raise MalformedSimplex("our version is not offered")
    if reader.short() != session_id:
        raise MalformedSimplex("another session")
    return SmpServerHello(reader.items(reader.long), reader.long())


def smp_client_hello(identity: bytes) -> bytes:
    """Without a key for the session, which would ask for encrypted blocks."""
    return pad(word16(SMP_VERSION) + short(identity), SMP_BLOCK_BYTES)
