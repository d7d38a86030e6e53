"""A notification server for the agent's tests: one block after the other, everything in memory, no SMP servers.

It is written from the facts as the agent is, and keeps to them; what a test wants of it otherwise it sets.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from os import urandom
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.simplex.codec import WireFault, WireReader, b64, large, padded, short, u16
from local.simplex.identity import StandInIdentity
from local.simplex.keys import SharedBox, authorizes, dh_public_key, spki
from local.simplex.stream import NTF_ALPN, NTF_BLOCK, BlockStream, ConnectionLostError, SimplexAddress
from local.simplex.transmissions import WireTransmission, block_contents, transmissions_in


@dataclass
class ServedToken:
    device_token: str
    key: bytes
    dh: X25519PrivateKey
    box: SharedBox
    id: bytes = field(default_factory=lambda: urandom(24))
    code: bytes = field(default_factory=lambda: urandom(32))
    status: str = "REGISTERED"
    interval: int = 0

    def push(self, name: str, content: bytes) -> dict[str, Any]:
        nonce = urandom(24)
        sealed = self.box.seal(nonce, padded(content, 2912))
        return {"aps": {}, "notificationData": {"nonce": b64(nonce), name: b64(sealed)}}

    @property
    def verification(self) -> dict[str, Any]:
        return self.push("verification", self.code)


class ServedNtf:
    """An async context manager. `subscriptions` has the status by the id, and `notifiers` the id by the notifier's."""

    def __init__(self) -> None:
        self.identity = StandInIdentity.made()
        self.tokens: dict[bytes, ServedToken] = {}
        self.subscriptions: dict[bytes, str] = {}
        self.notifiers: dict[bytes, bytes] = {}
        self.commands: list[str] = []
        self.versions = 1, 3

    async def __aenter__(self) -> Self:
        context = self.identity.server_context(NTF_ALPN)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._server.close_clients()
        await self._server.wait_closed()

    @property
    def address(self) -> SimplexAddress:
        port = self._server.sockets[0].getsockname()[1]
        return SimplexAddress(self.identity.key_hash, ("localhost",), str(port))

    def disconnect(self) -> None:
        self._server.abort_clients()

    @property
    def token(self) -> ServedToken:
        [token] = self.tokens.values()
        return token

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = BlockStream(reader, writer, NTF_BLOCK)
        with suppress(ConnectionLostError, WireFault, asyncio.CancelledError):
            least, most = self.versions
            signed = self.identity.signed(X25519PrivateKey.generate().public_key())
            await stream.write(u16(least) + u16(most) + short(stream.session_id) + large(signed))
            greeting = WireReader(await stream.read())
            assert (greeting.u16(), greeting.short()) == (most, self.identity.key_hash)
            while True:
                asked = transmissions_in(await stream.read())
                answers = [self._answer(each, stream.session_id) for each in asked]
                await stream.write(*block_contents(answers, NTF_BLOCK))
        stream.abort()

    def _answer(self, asked: WireTransmission, session: bytes) -> WireTransmission:
        tag, _, arguments = asked.command.partition(b" ")
        self.commands.append(tag.decode())
        execute = getattr(self, f"_{tag.decode().lower()}")
        answer: bytes = execute(asked, session, WireReader(arguments))
        return WireTransmission(answer, asked.entity, asked.correlation)

    def _ping(self, *_: object) -> bytes:
        return b"PONG"

    def _tnew(self, asked: WireTransmission, session: bytes, arguments: WireReader) -> bytes:
        arguments.expect(b"TAP")
        device_token, key, dh = arguments.short().decode(), arguments.short(), dh_public_key(arguments.short())
        arguments.end()
        assert authorizes(key, asked.auth, asked.authorized(session))
        token = next((each for each in self.tokens.values() if each.key == key), None)
        if token is None:
            own = X25519PrivateKey.generate()
            token = ServedToken(device_token, key, own, SharedBox.between(own, dh))
            self.tokens[token.id] = token
        return b"IDTKN " + short(token.id) + short(spki(token.dh.public_key()))

    def _of_token(self, asked: WireTransmission, session: bytes) -> ServedToken | None:
        token = self.tokens.get(asked.entity)
        return token if token and authorizes(token.key, asked.auth, asked.authorized(session)) else None

    def _tvfy(self, asked: WireTransmission, session: bytes, arguments: WireReader) -> bytes:
        token = self._of_token(asked, session)
        if token is None or arguments.short() != token.code:
            return b"ERR AUTH"
        token.status = "ACTIVE"
        return b"OK"

    def _tchk(self, asked: WireTransmission, session: bytes, _: WireReader) -> bytes:
        token = self._of_token(asked, session)
        return b"TKN " + token.status.encode() if token else b"ERR AUTH"

    def _trpl(self, asked: WireTransmission, session: bytes, arguments: WireReader) -> bytes:
        if (token := self._of_token(asked, session)) is None:
            return b"ERR AUTH"
        arguments.expect(b"AP")
        token.device_token, token.code, token.status = arguments.short().decode(), urandom(32), "REGISTERED"
        return b"OK"

    def _tdel(self, asked: WireTransmission, session: bytes, _: WireReader) -> bytes:
        if (token := self._of_token(asked, session)) is None:
            return b"ERR AUTH"
        del self.tokens[token.id]
        return b"OK"

    def _tcrn(self, asked: WireTransmission, session: bytes, arguments: WireReader) -> bytes:
        if (token := self._of_token(asked, session)) is None:
            return b"ERR AUTH"
        token.interval = arguments.u16()
        return b"OK"

    def _snew(self, asked: WireTransmission, session: bytes, arguments: WireReader) -> bytes:
        arguments.expect(b"S")
        token = self.tokens[arguments.short()]
        arguments.several(arguments.short)
        _, _, notifier_id, key = arguments.short(), arguments.short(), arguments.short(), arguments.short()
        arguments.end()
        assert (len(key), len(notifier_id)) == (48, 24)
        if token.status != "ACTIVE" or not authorizes(token.key, asked.auth, asked.authorized(session)):
            return b"ERR AUTH"
        subscription_id = self.notifiers.setdefault(notifier_id, urandom(24))
        self.subscriptions[subscription_id] = "NEW"
        return b"IDSUB " + short(subscription_id)

    def _schk(self, asked: WireTransmission, *_: object) -> bytes:
        status = self.subscriptions.get(asked.entity)
        return b"SUB " + status.encode() if status else b"ERR AUTH"

    def _sdel(self, asked: WireTransmission, *_: object) -> bytes:
        return b"OK" if self.subscriptions.pop(asked.entity, None) else b"ERR AUTH"
