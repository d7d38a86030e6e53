"""An agent's end of the NTF protocol, by the wire format alone: nothing of the product is used here."""

import socket
import ssl
from dataclasses import dataclass
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509 import load_der_x509_certificate

from tests.simplex_wire import Cursor, batch, padded, short, transmissions_of

BLOCK = 512
SECONDS = 60
X25519_SPKI = bytes.fromhex("302a300506032b656e032100")
ED25519_SPKI = bytes.fromhex("302a300506032b6570032100")


@dataclass(frozen=True)
class Answer:
    correlation_id: bytes
    entity_id: bytes
    content: bytes


def answer_of(transmission: bytes) -> Answer:
    raw = Cursor(transmission)
    assert not raw.short()
    return Answer(raw.short(), raw.short(), raw.rest)


@dataclass(frozen=True)
class Hello:
    lowest: int
    highest: int
    session_id: bytes
    rest: bytes


def tls_context(
    *, alpn: bool = True, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2, ciphers: str | None = None
) -> ssl.SSLContext:
    """Of one version: suites of 1.3 can't be chosen here, and those that are preferred are not the server's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    if alpn:
        context.set_alpn_protocols(["ntf/1"])
    if ciphers:
        context.set_ciphers(ciphers)
    return context


class TlsAgent:
    """A connection after both hellos. It knows nothing of the server but the fingerprint that it expects."""

    def __init__(
        self,
        port: int,
        *,
        context: ssl.SSLContext | None = None,
        expected: bytes | None = None,
        version: int = 3,
        receive_bytes: int | None = None,
        source: str = "127.0.0.1",
    ) -> None:
        self.socket = _connected(port, context or tls_context(), receive_bytes, source)
        try:
            self._introduce(version, expected)
        except BaseException:
            self.close()
            raise

    def _introduce(self, version: int, expected: bytes | None) -> None:
        self.chain = [bytes(each) for each in self.socket.get_unverified_chain()]
        self.identity = sha256(self.chain[1]).digest()
        self.hello = self._read_hello()
        self.key = Ed25519PrivateKey.generate()
        self.socket.sendall(padded(version.to_bytes(2) + short(expected or self.identity), BLOCK))

    def _read_hello(self) -> Hello:
        content = Cursor(Cursor(self.read_block()).long())
        lowest, highest = int.from_bytes(content.take(2)), int.from_bytes(content.take(2))
        return Hello(lowest, highest, content.short(), content.rest)

    @property
    def binding(self) -> bytes:
        return self.socket.get_channel_binding("tls-unique") or b""

    def server_key(self) -> bytes:
        """The raw key of X25519 that the leaf has signed for this session. Raises `InvalidSignature`."""
        signed = Cursor(self.hello.rest).long()
        assert signed[:2] == bytes([0x30, len(signed) - 2])
        info, algorithm, bits = signed[2:46], signed[46:53], signed[53:]
        assert algorithm == bytes.fromhex("300506032b6570")
        assert bits[:3] == bytes.fromhex("034100")
        leaf = load_der_x509_certificate(self.chain[0]).public_key()
        assert isinstance(leaf, Ed25519PublicKey)
        leaf.verify(bits[3:], info)
        return info[12:]

    def read_block(self) -> bytes:
        """Raises `EOFError` at the end."""
        read = b""
        while len(read) < BLOCK:
            some = self.socket.recv(BLOCK - len(read))
            if not some:
                raise EOFError
            read += some
        return read

    def transmission(self, command: bytes, *, correlation: bytes, entity: bytes = b"", signs: bool = True) -> bytes:
        plain = short(correlation) + short(entity) + command
        signature = self.key.sign(short(self.hello.session_id) + plain) if signs else b""
        return short(signature) + plain

    def ping(self, correlation: bytes) -> bytes:
        return self.transmission(b"PING", correlation=correlation, signs=False)

    def send(self, *transmissions: bytes) -> None:
        self.socket.sendall(batch(BLOCK, *transmissions))

    def answers(self, count: int) -> list[Answer]:
        """So many, from as many blocks as they come in."""
        found: list[Answer] = []
        while len(found) < count:
            found += map(answer_of, transmissions_of(self.read_block()))
        return found

    def ask(self, *transmissions: bytes) -> list[Answer]:
        self.send(*transmissions)
        return self.answers(len(transmissions))

    def is_closed(self) -> bool:
        """Waits until it is."""
        try:
            while self.socket.recv(BLOCK):
                pass
        except (ConnectionError, ssl.SSLError):
            pass
        return True

    def close(self) -> None:
        self.socket.close()


def _connected(port: int, context: ssl.SSLContext, receive_bytes: int | None, source: str) -> ssl.SSLSocket:
    raw = socket.socket()
    try:
        if receive_bytes:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        raw.settimeout(SECONDS)
        raw.bind((source, 0))
        raw.connect(("127.0.0.1", port))
        return context.wrap_socket(raw)
    except BaseException:
        raw.close()
        raise


def registering(agent: TlsAgent, device: bytes = b"5e" * 32) -> bytes:
    """TNEW of this device's token, with the agent's key."""
    owner = ED25519_SPKI + agent.key.public_key().public_bytes_raw()
    return b"TNEW TAP" + short(device) + short(owner) + short(X25519_SPKI + (b"\x09" + bytes(31)))
