"""A Notify server of the tests' own, which believes whatever it is told: of one dapp, for wallets of either generation."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from local.http2 import Response, ServedRequest
from local.provider import json_response
from local.tls import Localhost
from local.walletconnect.codec import (
    claims_of,
    did_key,
    open_envelope,
    seal,
    sender_of,
    shared_key,
    sign,
    topic_of,
)
from local.walletconnect.dapp import AUTHENTICATION_KEY, SUBSCRIBE_KEY, Dapp, DappNotificationType, did_document
from local.walletconnect.hosts import NOTIFY
from local.walletconnect.identity import token_hash
from local.walletconnect.socket import background_tasks, connected

_MONTH_S, _FIVE_MINUTES_S = 30 * 24 * 60 * 60, 5 * 60


class OwnKeys:
    def __init__(self) -> None:
        self.agreement, self.authentication = X25519PrivateKey.generate(), Ed25519PrivateKey.generate()

    @property
    def public(self) -> Mapping[str, bytes]:
        return {
            SUBSCRIBE_KEY: self.agreement.public_key().public_bytes_raw(),
            AUTHENTICATION_KEY: self.authentication.public_key().public_bytes_raw(),
        }

    @property
    def topic(self) -> str:
        return topic_of(self.public[SUBSCRIBE_KEY])


class TrustingNotifyServer:
    """`receipts` are the claims of what wallets acknowledge, `deletions` those of the requests to delete."""

    def __init__(self, *types: DappNotificationType) -> None:
        self._own, self._dapp = OwnKeys(), OwnKeys()
        self.server = Dapp(NOTIFY, (), self._own.public)
        self.dapp = Dapp("app.dapp.example", types, self._dapp.public)
        self.receipts = asyncio.Queue[dict[str, Any]]()
        self.deletions: list[dict[str, Any]] = []
        self._key = b""
        self._subscription: dict[str, Any] | None = None
        self._hash = ""
        self._watcher: tuple[bytes, dict[str, Any]] | None = None
        self._history: list[dict[str, Any]] = []

    @asynccontextmanager
    async def on(self, relay_url: str, localhost: Localhost) -> AsyncIterator[None]:
        context = localhost.client_context()
        async with connected(relay_url, self._receive, context) as self._relay, background_tasks() as self._tasks:
            for topic in (self._own.topic, self._dapp.topic):
                await self._relay.subscribe(topic)
            yield

    async def show_did(self, _: ServedRequest) -> Response:
        return json_response(200, dict(did_document(NOTIFY, self.server.keys)))

    async def notify(self, type_: str, title: str) -> None:
        message = {"id": str(uuid4()), "sent_at": 1000 * int(time.time()), "type": type_, "title": title, "body": "…"}
        self._history.append({**message, "url": "", "icon": "", "is_read": False})
        claims = {"act": "notify_message", **self._holder, "msg": self._history[-1]}
        await self._request("wc_notifyMessage", "messageAuth", claims, 4002, self._key, self._dapp, _MONTH_S)

    @property
    def _holder(self) -> dict[str, Any]:
        """Whom a message is for, as the subscription's generation says it."""
        subscription = self._subscription or {}
        did = f"did:pkh:{subscription['account']}"
        return {"sub": did, "mjv": "1"} if subscription["shipped"] else {"aud": did, "sub": self._hash}

    def _receive(self, topic: str, envelope: str) -> None:
        self._tasks.create_task(self._react(topic, envelope))

    async def _react(self, topic: str, envelope: str) -> None:
        keys = {self._own.topic: self._own, self._dapp.topic: self._dapp}.get(topic)
        key = shared_key(keys.agreement, sender_of(envelope)) if keys else self._key
        if self._watcher and topic == topic_of(self._watcher[0]):
            key = self._watcher[0]
        content = json.loads(open_envelope(envelope, key).content)
        if "method" not in content:
            self.receipts.put_nowait(dict(claims_of(*content["result"].values())))
            return
        [token] = content["params"].values()
        claims = dict(claims_of(token))
        answer = await getattr(self, f"_{claims['act']}")(claims, token, sender_of(envelope), key)
        await self._answer(content["id"], claims, answer, key)
        if claims["act"] in {"notify_subscription", "notify_delete"}:
            # Afterwards: on a topic that a wallet knows to be deleted it does not hear the answer.
            await self._tell_watcher()

    async def _notify_watch_subscriptions(
        self, claims: dict[str, Any], _: str, __: bytes, key: bytes
    ) -> dict[str, Any]:
        self._watcher = key, claims
        await self._relay.subscribe(topic_of(key))
        return self._subscriptions

    async def _notify_subscription(self, claims: dict[str, Any], token: str, sender: bytes, _: bytes) -> dict[str, Any]:
        agreement = X25519PrivateKey.generate()
        self._key, self._hash = shared_key(agreement, sender), token_hash(token)
        account = claims["sub"].removeprefix("did:pkh:")
        self._subscription = {"account": account, "scope": claims["scp"].split(), "shipped": "mjv" in claims}
        await self._relay.subscribe(topic_of(self._key))
        return self._subscriptions if "mjv" in claims else {"sub": did_key(agreement.public_key())}

    async def _notify_update(self, claims: dict[str, Any], token: str, *_: bytes) -> dict[str, Any]:
        assert self._subscription
        self._subscription["scope"], self._hash = claims["scp"].split(), token_hash(token)
        return self._subscriptions if "mjv" in claims else {"sub": self._hash}

    async def _notify_delete(self, claims: dict[str, Any], _: str, *__: bytes) -> dict[str, Any]:
        self.deletions.append(claims)
        self._subscription = None
        return self._subscriptions if "mjv" in claims else {"sub": self._hash}

    async def _notify_get_notifications(self, *_: Any) -> dict[str, Any]:
        return {"nfs": self._history, "mre": False, "mur": False}

    async def _notify_mark_notifications_as_read(self, claims: dict[str, Any], *_: Any) -> dict[str, Any]:
        for notification in self._history:
            notification["is_read"] |= claims["all"] or notification["id"] in claims["ids"]
        return {}

    @property
    def _subscriptions(self) -> dict[str, Any]:
        if self._subscription is None:
            return {"sbs": []}
        known = {name: self._subscription[name] for name in ("account", "scope")}
        key = did_key(self._dapp.authentication.public_key())
        times = {"expiry": int(time.time()) + _MONTH_S, "unreadNotificationCount": 0}
        app = {"appDomain": self.dapp.domain, "appAuthenticationKey": key, "symKey": self._key.hex()}
        return {"sbs": [{**app, **known, **times}]}

    async def _tell_watcher(self) -> None:
        if self._watcher is None:
            return
        key, asked = self._watcher
        claims = {"act": "notify_subscriptions_changed", "aud": asked["iss"], "sub": asked["sub"], "mjv": "1"}
        method, field = "wc_notifySubscriptionsChanged", "subscriptionsChangedAuth"
        told = {**claims, **self._subscriptions}
        await self._request(method, field, told, 4012, key, self._own, _FIVE_MINUTES_S)

    async def _request(
        self, method: str, field: str, claims: dict[str, Any], tag: int, key: bytes, keys: OwnKeys, ttl: int
    ) -> None:
        content = {"id": time.time_ns() // 1000, "jsonrpc": "2.0", "method": method}
        await self._publish({**content, "params": {field: _signed(claims, keys, ttl)}}, tag, key)

    async def _answer(self, number: int, asked: dict[str, Any], told: dict[str, Any], key: bytes) -> None:
        act, watching = asked["act"], asked["act"] == "notify_watch_subscriptions"
        short = watching or act in {"notify_get_notifications", "notify_mark_notifications_as_read"}
        common = {"act": f"{act}_response", "aud": asked["iss"], "sub": asked["sub"], "app": asked["app"], "mjv": "1"}
        token = _signed(
            {**common, **told}, self._own if watching else self._dapp, _FIVE_MINUTES_S if short else _MONTH_S
        )
        field = "auth" if short and not watching else "responseAuth"
        await self._publish({"id": number, "jsonrpc": "2.0", "result": {field: token}}, 4001, key)

    async def _publish(self, content: dict[str, Any], tag: int, key: bytes) -> None:
        sealed = seal(json.dumps(content).encode(), key)
        await self._relay.publish(topic_of(key), sealed, tag=tag, ttl=_FIVE_MINUTES_S)


def _signed(claims: dict[str, Any], keys: OwnKeys, ttl: int) -> str:
    now = int(time.time())
    issued = {"iat": now, "exp": now + ttl, "iss": did_key(keys.authentication.public_key())}
    return sign({**issued, **claims}, keys.authentication)
