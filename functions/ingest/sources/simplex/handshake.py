"""A session with an SMP server, from its TLS handshake to the point where queues can be subscribed to.

TLS ──▶ its chain has the identity that the agent named, whose leaf it has signed ──▶ hello ──▶ our hello
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl.public import PublicKey

from clarion.networks.simplex.addresses import SmpServer
from clarion.networks.simplex.blocks import SMP_BLOCK_BYTES
from clarion.networks.simplex.credentials import identity_of
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.handshakes import SmpServerHello, read_smp_server_hello, smp_client_hello
from clarion.networks.simplex.signed_key import signed_key
from clarion.tls_stream import TlsStream
from ingest.sources import SourceFault

_ALPN = "smp/1"


def client_context() -> ssl.SSLContext:
    """Of clients that know a server by the fingerprint of its identity, and name no host.

    A server that is asked for a host shows the certificate of its web page. Nothing is resumed, which would change the
    session's id.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE+CHACHA20")
    context.set_alpn_protocols([_ALPN])
    return context


@dataclass(frozen=True, slots=True)
class SmpConnection:
    """`server_key` is the server's for this session, by which X25519 authorizes. All raise `OSError`."""

    stream: TlsStream = field(repr=False)
    session_id: bytes = field(repr=False)
    server_key: PublicKey = field(repr=False)

    async def read_block(self) -> bytes:
        return await self.stream.read(SMP_BLOCK_BYTES)

    async def write(self, block: bytes) -> None:
        await self.stream.write(block)


async def greet(stream: TlsStream, server: SmpServer) -> SmpConnection:
    """Raise `SourceFault` if it is another server, or doesn't speak as one, and `OSError`."""
    await stream.handshake()
    session_id = stream.session_id
    try:
        leaf = _leaf_of(server, stream.certificates)
        hello = read_smp_server_hello(await stream.read(SMP_BLOCK_BYTES), session_id)
        server_key = _session_key(hello, stream.certificates, leaf)
    except MalformedSimplex as error:
        raise SourceFault(str(error)) from None
    await stream.write(smp_client_hello(server.identity))
    return SmpConnection(stream, session_id, server_key)


def _session_key(hello: SmpServerHello, chain: Sequence[bytes], leaf: Ed25519PublicKey | Ed448PublicKey) -> PublicKey:
    if hello.certificates != chain:
        raise MalformedSimplex("another chain of certificates than TLS has shown")
    return signed_key(hello.signed_key, leaf)


def _leaf_of(server: SmpServer, chain: Sequence[bytes]) -> Ed25519PublicKey | Ed448PublicKey:
    """The key of the chain's leaf. Raises `MalformedSimplex` if the server that the agent named has not signed it."""
    if identity_of(chain) != server.identity:
        raise MalformedSimplex("another identity")
    try:
        leaf, identity = map(x509.load_der_x509_certificate, chain[:2])
        leaf.verify_directly_issued_by(identity)
        key = leaf.public_key()
        is_valid = leaf.not_valid_before_utc <= datetime.now(UTC) <= leaf.not_valid_after_utc
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion):
        raise MalformedSimplex("a leaf that can't be read, or that its identity has not signed") from None
    if not is_valid:
        raise MalformedSimplex("a leaf that is not valid now")
    if not isinstance(key, Ed25519PublicKey | Ed448PublicKey):
        raise MalformedSimplex("a leaf with a key of another kind")
    return key
