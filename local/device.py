"""A simulated phone: it signs and submits statements, and manages its subscriptions through the HTTP API."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import count
from typing import Any, Self

import httpx
import jwt
import sr25519
from websockets.asyncio.client import ClientConnection, connect

from clarion.networks.statements import signature
from clarion.networks.statements.codec import Statement, encode

type Rule = tuple[bytes, bytes]
"""Sender's public key and topic."""

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


class Api:
    """A device's calls of the HTTP API. `client` has the API's base URL and the device's bearer token."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def register(self, notify_type: str, token: str, **more: str) -> str:
        """The new subscription's id; `more` are the optional fields, `app` and `environment`."""
        answer = await self._send(
            "POST", "/v1/subscriptions", {"notificationType": notify_type, "token": token, **more}
        )
        subscription: str = answer.json()["subscription_id"]
        return subscription

    async def subscriptions(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = (await self._send("GET", "/v1/subscriptions")).json()
        return answer

    async def deliveries(self, subscription: str) -> list[dict[str, Any]]:
        """What became of its last pushes, the last first."""
        answer = await self._send("GET", f"/v1/subscriptions/{subscription}/deliveries")
        found: list[dict[str, Any]] = answer.json()["deliveries"]
        return found

    async def prove(self, subscription: str, code: str) -> str:
        """The subscription's status since."""
        answer = await self._send("POST", f"/v1/subscriptions/{subscription}/proof", {"code": code})
        return str(answer.json()["status"])

    async def replace_token(self, subscription: str, token: str) -> str:
        """The subscription's status since."""
        answer = await self._send("PUT", f"/v1/subscriptions/{subscription}/token", {"token": token})
        return str(answer.json()["status"])

    async def unregister(self, *subscriptions: str) -> None:
        await self._send("DELETE", "/v1/subscriptions", {"subscription_ids": list(subscriptions)})

    async def notify(self, token: str, push_id: str, message: bytes) -> dict[str, Any]:
        """Push directly; the provider's acceptance, or its reason to refuse."""
        body = {"deviceToken": token, "pushId": push_id, "message": message.hex()}
        result: dict[str, Any] = (await self._send("POST", "/v1/notify", body)).json()
        return result

    async def replace_rules(self, subscription: str, *rules: Rule) -> None:
        await self._send("PUT", "/v1/subscriptions/rules", _rules(subscription, rules))

    async def add_rules(self, subscription: str, *rules: Rule) -> None:
        await self._send("POST", "/v1/subscriptions/rules", _rules(subscription, rules))

    async def remove_rules(self, subscription: str, *rules: Rule) -> None:
        await self._send("DELETE", "/v1/subscriptions/rules", _rules(subscription, rules))

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        response = await self._client.request(method, path, json=body)
        return response.raise_for_status()


def _rules(subscription: str, rules: tuple[Rule, ...]) -> dict[str, Any]:
    wanted = [{"sender_pubkey": sender.hex(), "topic": topic.hex()} for sender, topic in rules]
    return {"subscription_id": subscription, "rules": wanted}
