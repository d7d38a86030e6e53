"""An SMP server as its notifiers see it, at version 10. It is written from the protocol, and shares nothing with the product.

It checks what it is sent, keeps what it has for nobody, and can misbehave.
"""

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from os import urandom
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tests.ports import reserve_port
from tests.simplex_wire import Cursor, batch, long, padded, short, transmissions_of

BLOCK = 16_384
_CENTURY = 36_500
_DER, _SPKI = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
_PEM = serialization.Encoding.PEM


class Chain:
    """An identity and the leaf that it has signed; `signer` takes the identity's place, for a forged leaf.

    `ends_in_no_year`: its last day is in the year 0.
    """

    def __init__(
        self,
        folder: Path,
        *,
        signer: Ed25519PrivateKey | None = None,
        days: int = 30,
        ends_in_no_year: bool = False,
    ) -> None:
        identity, self.leaf = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
        root, name = self._certificate("identity", "identity", identity, identity, 365), "server"
        leaf = self._certificate(name, "identity", self.leaf, signer or identity, days)
        if ends_in_no_year:
            leaf = _ending_in_no_year(self._certificate(name, "identity", self.leaf, identity, _CENTURY), identity)
        self.certificates = [leaf.public_bytes(_DER), root.public_bytes(_DER)]
        self.fingerprint = sha256(self.certificates[1]).digest()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.num_tickets = 0
        self.context.set_alpn_protocols(["smp/1"])
        path = folder / f"{self.fingerprint.hex()}.pem"
        key = self.leaf.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        path.write_bytes(key + leaf.public_bytes(_PEM) + root.public_bytes(_PEM))
        self.context.load_cert_chain(path)

    @staticmethod
    def _certificate(
        subject: str, issuer: str, key: Ed25519PrivateKey, signer: Ed25519PrivateKey, days: int
    ) -> x509.Certificate:
        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        begins = datetime.now(UTC) - timedelta(days=90)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(datetime.now(UTC) + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=subject == issuer, path_length=None), critical=True)
            .sign(signer, None)
        )


def _ending_in_no_year(leaf: x509.Certificate, signer: Ed25519PrivateKey) -> x509.Certificate:
    """`leaf` has to end after 2050: from then on certificates write the year with four digits."""
    signed = leaf.tbs_certificate_bytes
    altered = signed.replace(f"{leaf.not_valid_after_utc:%Y%m%d}".encode(), b"00000101")
    assert altered != signed
    # The signature comes last.
    rest = leaf.public_bytes(_DER).replace(signed, altered)[: -len(leaf.signature)]
    return x509.load_der_x509_certificate(rest + signer.sign(altered))


@dataclass(eq=False)
class ServedQueue:
    """`kept` has waited for somebody to subscribe; `refusal` is what each subscription is answered by."""

    key: Ed25519PublicKey
    kept: list[bytes] = field(default_factory=list)
    subscriber: "_Client | None" = None
    refusal: bytes | None = None


@dataclass(eq=False)
class _Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    session_id: bytes = b""

    def send(self, *transmissions: bytes) -> None:
        with suppress(OSError):
            self.writer.write(batch(BLOCK, *transmissions))


class SmpTestServer:
    """`subscribed` lists each accepted subscription's notifier id; `ended` those that were sent an END."""

    def __init__(self, folder: Path, chain: Chain | None = None) -> None:
        self.chain = chain or Chain(folder)
        self.queues: dict[bytes, ServedQueue] = {}
        self.subscribed: list[bytes] = []
        self.ended: list[bytes] = []
        self.pings = 0
        self.connections = 0
        self.batches: list[int] = []
        self.mute = False
        """Whether it answers no subscription."""
        self.versions = (6, 14)
        self.signed_by: Ed25519PrivateKey | None = None
        """Signs its session's key in place of its leaf."""
        self.clients: list[_Client] = []
        self._changed = asyncio.Condition()
        self._port = reserve_port(self)
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self.chain.context)

    async def stop(self) -> None:
        """Cut all off, and let nobody in."""
        if self._server:
            self._server.close()
            for client in tuple(self.clients):
                client.writer.transport.abort()
            await self._server.wait_closed()
            self._server = None

    @property
    def port(self) -> int:
        return self._port

    def address(self, *hosts: str) -> bytes:
        """As an agent encodes it: hosts, port, fingerprint."""
        listed = [host.encode() for host in hosts or ("127.0.0.1",)]
        names = bytes([len(listed)]) + b"".join(map(short, listed))
        return names + short(str(self._port).encode()) + short(self.chain.fingerprint)

    def add_queue(self) -> tuple[bytes, Ed25519PrivateKey]:
        """The notifier's id and its key."""
        notifier_id, key = urandom(24), Ed25519PrivateKey.generate()
        self.queues[notifier_id] = ServedQueue(key.public_key())
        return notifier_id, key

    def notify(self, *notifier_ids: bytes) -> list[bytes]:
        """A message came into each; their nonces."""
        nonces = [urandom(24) for _ in notifier_ids]
        by_client = defaultdict[_Client, list[bytes]](list)
        for notifier_id, nonce in zip(notifier_ids, nonces, strict=True):
            queue = self.queues[notifier_id]
            event = b"\0\0" + short(notifier_id) + b"NMSG " + nonce + short(b"\x6d" * 144)
            if queue.subscriber:
                by_client[queue.subscriber].append(event)
            else:
                queue.kept.append(event)
        for client, events in by_client.items():
            for start in range(0, len(events), 80):
                client.send(*events[start : start + 80])
        return nonces

    def delete(self, notifier_id: bytes) -> None:
        queue = self.queues.pop(notifier_id)
        if queue.subscriber:
            queue.subscriber.send(b"\0\0" + short(notifier_id) + b"DELD")

    def take_away(self, notifier_id: bytes) -> None:
        """Another notifier subscribes."""
        queue = self.queues[notifier_id]
        assert queue.subscriber
        queue.subscriber.send(b"\0\0" + short(notifier_id) + b"END")
        queue.subscriber = None

    def take_little_at_a_time(self) -> None:
        """From now on its machine holds next to nothing of what it has not read."""
        assert self._server
        self._server.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)

    def send_raw(self, content: bytes) -> None:
        for client in self.clients:
            client.writer.write(content)

    async def until(self, holds: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(holds()))

    async def connects(self, times: int) -> None:
        """Wait for so many connections in all."""
        await self.until(lambda: self.connections >= times)

    async def subscribes(self, *notifier_ids: bytes) -> None:
        """Wait until each of them has a subscriber."""
        await self.until(lambda: all(self.queues[one].subscriber for one in notifier_ids))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(reader, writer)
        self.clients.append(client)
        self.connections += 1
        try:
            await self._greet(client)
            while True:
                await self._answer(client, await reader.readexactly(BLOCK))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.clients.remove(client)
            for queue in self.queues.values():
                if queue.subscriber is client:
                    queue.subscriber = None
            writer.close()
            await self._note()

    async def _greet(self, client: _Client) -> None:
        tls = client.writer.get_extra_info("ssl_object")
        assert tls.selected_alpn_protocol() == "smp/1"
        client.session_id = tls.get_channel_binding("tls-unique")
        lowest, highest = self.versions
        spki = X25519PrivateKey.generate().public_key().public_bytes(_DER, _SPKI)
        signature = (self.signed_by or self.chain.leaf).sign(spki)
        algorithm = bytes.fromhex("300506032b6570")
        content = spki + algorithm + b"\x03\x41\x00" + signature
        signed = b"\x30" + bytes([len(content)]) + content
        certificates = bytes([len(self.chain.certificates)]) + b"".join(map(long, self.chain.certificates))
        hello = lowest.to_bytes(2, "big") + highest.to_bytes(2, "big") + short(client.session_id)
        client.writer.write(padded(hello + certificates + long(signed), BLOCK))
        answer = Cursor(Cursor(await client.reader.readexactly(BLOCK)).long())
        assert answer.take(2) == (10).to_bytes(2, "big")
        assert answer.short() == self.chain.fingerprint

    async def _answer(self, client: _Client, block: bytes) -> None:
        transmissions = transmissions_of(block)
        self.batches.append(len(transmissions))
        answers: list[bytes] = []
        kept: list[bytes] = []
        for raw in transmissions:
            answers += self._execute(client, Cursor(raw), kept)
        for start in range(0, len(answers), 200):
            client.send(*answers[start : start + 200])
        for start in range(0, len(kept), 80):
            client.send(*kept[start : start + 80])
        await client.writer.drain()
        await self._note()

    def _execute(self, client: _Client, raw: Cursor, kept: list[bytes]) -> Iterable[bytes]:
        authorization, signed = raw.short(), short(client.session_id) + raw.rest
        number, entity, command = raw.short(), raw.short(), raw.rest
        head = b"\0" + short(number) + short(entity)
        if command == b"PING":
            self.pings += 1
            return [head + b"PONG"]
        assert command == b"NSUB"
        assert len(number) == 24
        queue = self.queues.get(entity)
        if self.mute:
            return []
        if queue is None:
            return [head + b"ERR AUTH"]
        try:
            queue.key.verify(authorization, signed)
        except InvalidSignature:
            return [head + b"ERR AUTH"]
        if queue.refusal:
            return [head + b"ERR " + queue.refusal]
        if queue.subscriber and queue.subscriber is not client:
            self.ended.append(entity)
            queue.subscriber.send(b"\0\0" + short(entity) + b"END")
        queue.subscriber = client
        self.subscribed.append(entity)
        kept += queue.kept
        queue.kept = []
        return [head + b"OK"]

    async def _note(self) -> None:
        async with self._changed:
            self._changed.notify_all()
