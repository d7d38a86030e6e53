"""A simulated phone: it signs and submits statements, and has a bearer token for the HTTP API."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from typing import Any, Self

import jwt
import sr25519
from websockets.asyncio.client import ClientConnection, connect

from clarion.networks.statements import signature
from clarion.networks.statements.codec import Statement, encode

NEVER_EXPIRES = (1 << 32) - 1

_ISSUER, _AUDIENCE = "polkadot-app", "clarion"
_TOKEN_LIFETIME = timedelta(hours=24)
_MAX_MESSAGE = 16 << 20


def topic_of(text: str) -> bytes:
    """The topic that apps derive from a text: its BLAKE2b-256."""
    return blake2b(text.encode(), digest_size=32).digest()


class Device:
    """An Sr25519 keypair, always the same for the same name, and what it signs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._keypair: tuple[bytes, bytes] = sr25519.pair_from_seed(blake2b(name.encode(), digest_size=32).digest())
        self._sequence = count(1)

    @property
    def public_key(self) -> bytes:
        return self._keypair[0]

    def statement(
        self, *topics: bytes, data: bytes, expires_at: int = NEVER_EXPIRES, channel: bytes | None = None
    ) -> bytes:
        """A signed, encoded statement; each has a higher sequence than the one before."""
        expiry = expires_at << 32 | next(self._sequence)
        unsigned = Statement(expiry=expiry, topics=topics, data=data, channel=channel)
        return encode(signature.sign(unsigned, self._keypair))

    def api_token(self, secret: str, issued: datetime | None = None) -> str:
        """The bearer token that the app's backend would issue to this device: 24 hours."""
        issued = issued or datetime.now(UTC)
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": self.public_key.hex(),
            "iat": issued,
            "exp": issued + _TOKEN_LIFETIME,
        }
        return jwt.encode(claims, secret, algorithm="HS256")


def forge(statement: bytes) -> bytes:
    """The same statement with one bit of its signature wrong."""
    return statement[:3] + bytes([statement[3] ^ 1]) + statement[4:]


class Publisher:
    """An async context manager that submits statements to a store over one WebSocket."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count(1)

    async def __aenter__(self) -> Self:
        self._socket: ClientConnection = await connect(self._url, max_size=_MAX_MESSAGE, compression=None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    async def submit(self, statement: bytes) -> dict[str, Any]:
        """The store's answer: `result` or `error`, as JSON-RPC has it."""
        return await self._call("statement_submit", statement)

    async def inject(self, statement: bytes) -> dict[str, Any]:
        """Past every check: only the development store offers this."""
        return await self._call("dev_inject", statement)

    async def _call(self, method: str, statement: bytes) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": [f"0x{statement.hex()}"]}
        await self._socket.send(json.dumps(request))
        answer: dict[str, Any] = json.loads(await self._socket.recv())
        return answer
