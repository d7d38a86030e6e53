"""TLS as agents speak it: 1.3 or 1.2, by ChaCha20-Poly1305 and X25519 alone, and never resumed.

Suites of TLS 1.3 can't be chosen by a context of this version of Python: `openssl.cnf` beside this module has the
process prefer ours, and a connection that has agreed on another one is closed. Agents offer no other.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.tls_stream import TlsStream

ALPN = "ntf/1"
CURVE = "X25519"
SUITES = frozenset({"TLS_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"})


def server_context(identity: ServerIdentity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305")
    context.set_ecdh_curve(CURVE)
    context.set_alpn_protocols([ALPN])
    # A resumed session would have the binding of the one before.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 0
    with _as_file(identity.chain) as chain, _as_file(identity.leaf_key) as key:
        context.load_cert_chain(chain, key)
    return context


def prefers_our_suite(context: ssl.SSLContext) -> bool:
    """Whether `openssl.cnf` is in force, which OpenSSL reads when it is loaded."""
    return context.get_ciphers()[0]["name"] in SUITES


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """In memory: OpenSSL takes a path, and the task's disk is read-only."""
    with os.fdopen(os.memfd_create("identity"), "w") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


async def accept(connected: TlsStream) -> None:
    """The server's side of the handshake. Raises `OSError`, also for another suite."""
    await connected.handshake()
    if connected.suite not in SUITES or not connected.session_id:
        raise ConnectionAbortedError("another suite, or a session without an id")
