"""A dapp that notifies its users by WalletConnect: what its backend asks of the Notify server, and what its site hosts."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from local.walletconnect.codec import JsonObject, did_web

SUBSCRIBE_KEY, AUTHENTICATION_KEY = "wc-notify-subscribe-key", "wc-notify-authentication-key"
_CURVES = {SUBSCRIBE_KEY: "X25519", AUTHENTICATION_KEY: "Ed25519"}


@dataclass(frozen=True)
class DappNotificationType:
    name: str
    id: str = field(default_factory=lambda: str(uuid4()))

    def as_json(self) -> JsonObject:
        images = dict.fromkeys(("sm", "md", "lg"), "")
        return {"id": self.id, "name": self.name, "description": self.name, "imageUrls": images, "image_id": ""}


@dataclass(frozen=True)
class Dapp:
    """`keys` are the public ones that the Notify server has made for its domain."""

    domain: str
    types: Sequence[DappNotificationType]
    keys: Mapping[str, bytes]

    @property
    def did_document(self) -> JsonObject:
        return did_document(self.domain, self.keys)

    @property
    def notify_config(self) -> JsonObject:
        """As the explorer serves it, where dapps describe themselves and their notifications."""
        types = [each.as_json() for each in self.types]
        return {"id": self.domain, "name": self.domain, "description": self.domain, "notificationTypes": types}


def did_document(host: str, keys: Mapping[str, bytes]) -> JsonObject:
    did = did_web(host)
    methods = [
        {
            "id": f"{did}#{name}",
            "type": "JsonWebKey2020",
            "controller": did,
            "publicKeyJwk": {"kty": "OKP", "crv": _CURVES[name], "x": urlsafe_b64encode(key).decode().rstrip("=")},
        }
        for name, key in keys.items()
    ]
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"],
        "id": did,
        "verificationMethod": methods,
        "keyAgreement": [f"{did}#{SUBSCRIBE_KEY}"],
        "authentication": [f"{did}#{AUTHENTICATION_KEY}"],
    }


def keys_of(document: JsonObject) -> Mapping[str, bytes]:
    """Undo `did_document`."""
    methods = {
        method["id"].rpartition("#")[2]: method["publicKeyJwk"]["x"] for method in document["verificationMethod"]
    }
    return {name: urlsafe_b64decode(key + "=") for name, key in methods.items()}


@dataclass(frozen=True)
class DappBackend:
    """`http` has the Notify server's base URL; the secret is the project's."""

    http: httpx.AsyncClient
    project_id: str
    secret: str = field(repr=False)

    async def join(self, domain: str, types: Sequence[DappNotificationType]) -> Dapp:
        """Have keys made for the domain; its site is to host them."""
        answer = await self.post("subscribe-topic", {"appDomain": domain})
        keys = {SUBSCRIBE_KEY: answer["subscribeKey"], AUTHENTICATION_KEY: answer["authenticationKey"]}
        return Dapp(domain, types, {name: bytes.fromhex(key) for name, key in keys.items()})

    async def notify(
        self, accounts: Sequence[str], notification: JsonObject, notification_id: str | None = None
    ) -> JsonObject:
        """What became of each account: `sent`, `failed` or `not_found`."""
        body = {"notification": notification, "accounts": list(accounts), "notification_id": notification_id}
        return await self.post("notify", {name: value for name, value in body.items() if value is not None})

    async def post(self, path: str, body: Any) -> JsonObject:
        """Raises `httpx.HTTPStatusError`."""
        answer = await self.http.post(
            f"/{self.project_id}/{path}", json=body, headers={"Authorization": f"Bearer {self.secret}"}
        )
        answer.raise_for_status()
        content: JsonObject = answer.json()
        return content
