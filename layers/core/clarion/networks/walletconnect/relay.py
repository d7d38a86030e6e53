"""The relay: what passes all messages between wallets, dapps and the Notify server, by topic.

    WebSocket   irn_subscription ──▶ handled ──▶ result: true, or it comes again
    HTTP        irn_publish ──▶ result: true

Both are JSON-RPC 2.0. The relay keeps a message for its TTL in the mailbox of each client that has subscribed to its
topic. It knows a client by its key: whoever has it gets what the mailbox holds.

https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/servers/relay/relay-server-rpc.md
https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/clients/core/relay/relay-client-auth.md
https://github.com/WalletConnect/WalletConnectRust/tree/main/relay_rpc (errors, and the bounds of a batch)
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlencode, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic_core import from_json

from clarion import compact_json
from clarion.clock import now_ms
from clarion.networks.walletconnect.acts import ACTS, SHORT
from clarion.networks.walletconnect.did import public_did
from clarion.networks.walletconnect.jwt import sign
from clarion.networks.walletconnect.tags import NOOP, TAGS, ActName

PUBLISH, SUBSCRIBE, UNSUBSCRIBE = "irn_publish", "irn_batchSubscribeBlocking", "irn_batchUnsubscribe"
"""Subscribing, topic by topic, is answered when it is done: `refused_topics` reads the answer."""
_SUBSCRIPTION = "irn_subscription"
MOST_TOPICS = 500
"""In one request."""
TOKEN_SECONDS = 86_400
_BY_TLS = {"wss", "https"}
_ID_CHARACTERS = 100
"""Of the id that the relay gives a request, which its acknowledgement repeats: relays give numbers of 19 digits."""
_WORD = re.compile(r"[A-Za-z]{1,40}")


type RequestId = int | str | None
"""None of a refusal of what could not be read."""


class RelayFault(ValueError):  # noqa: N818 - it names what was received, as `Malformed` does
    """The relay broke its protocol; the text says how, in our words and none of the relay's."""


@dataclass(frozen=True, slots=True)
class RelayClient:
    """Whom the relay knows us as. `url` is the relay's, by either protocol, such as `wss://relay.walletconnect.com`."""

    url: str
    project_id: str
    key: Ed25519PrivateKey = field(repr=False)
    session: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    """Of this process, however often it connects."""

    def socket_url(self, now: int) -> str:
        """Good from `now` on, in UNIX seconds, for a day. It holds a token, and is never shown."""
        origin = self._origin("ws")
        return f"{origin}/?{self._query(origin, now)}"

    def rpc_url(self, now: int) -> str:
        """As `socket_url`, for HTTP."""
        origin = self._origin("http")
        return f"{origin}/rpc?{self._query(origin, now)}"

    def subscription_to(self, topic: str) -> dict[str, str]:
        """As it is unsubscribed from: clients make its id themselves, and the relay knows it by the topic."""
        return {"topic": topic, "id": sha256(f"{topic}{self._did}".encode()).hexdigest()}

    @property
    def _did(self) -> str:
        return public_did(self.key)

    def _origin(self, protocol: str) -> str:
        parts = urlsplit(self.url)
        return f"{protocol}{'s' if parts.scheme in _BY_TLS else ''}://{parts.netloc}"

    def _query(self, audience: str, now: int) -> str:
        return urlencode({"auth": self.token(audience, now), "projectId": self.project_id})

    def token(self, audience: str, now: int) -> str:
        """What authenticates us to the relay, which is the `audience`."""
        lifetime = {"iat": now, "exp": now + TOKEN_SECONDS}
        return sign(self.key, {"iss": self._did, "sub": self.session, "aud": audience, **lifetime})


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to be published: an envelope in base64. `ttl` is in seconds; `prompt` has the relay wake the wallet, too."""

    topic: str
    message: str = field(repr=False)
    tag: int
    ttl: int
    prompt: bool = False

    def request(self) -> bytes:
        """The body of its request."""
        params = {"topic": self.topic, "message": self.message, "ttl": self.ttl, "tag": self.tag, "prompt": self.prompt}
        return request(request_id(), PUBLISH, params)


def publication(topic: str, message: str, act: str) -> Publication:
    """Of a sealed token for `act`, which the relay keeps for as long as the token lives."""
    return Publication(topic, message, TAGS[act], ACTS["shipped"][act].ttl, prompt=act == ActName.MESSAGE)


def noop(topic: str, message: str) -> Publication:
    return Publication(topic, message, NOOP, SHORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayMessage:
    """What the relay hands over, to be acknowledged by the request's `id`. `published_at` is in UNIX milliseconds."""

    id: RequestId
    topic: str
    message: str = field(repr=False)
    tag: int
    published_at: int


@dataclass(frozen=True, slots=True)
class RelayAnswer:
    """The answer to our request `id`; `result` is whatever JSON the relay chose to send."""

    id: RequestId
    result: object = field(repr=False)


@dataclass(frozen=True, slots=True)
class RelayRefusal:
    """Of our request `id`. `reason` is the relay's own word for it, such as `MailboxLimitExceeded`."""

    id: RequestId
    code: int
    reason: str


def request_id() -> int:
    """13 digits of the time and 6 random ones, as the relay has it."""
    return now_ms() * 1_000_000 + secrets.randbelow(1_000_000)


def request(number: int, method: str, params: object) -> bytes:
    return compact_json.encode({"id": number, "jsonrpc": "2.0", "method": method, "params": params})


def acknowledgement(number: RequestId) -> bytes:
    return compact_json.encode({"id": number, "jsonrpc": "2.0", "result": True})


def read(frame: bytes) -> RelayMessage | RelayAnswer | RelayRefusal | None:
    """Make sense of what the relay sends; None for a request of another kind. Raises `RelayFault`."""
    try:
        content = from_json(frame, cache_strings="keys")
    except ValueError:
        raise RelayFault("not JSON") from None
    match content:
        case {"method": str(method)} if method != _SUBSCRIPTION:
            return None
        case {"id": int() | str() as number, "method": _, "params": {"data": dict(data)}} if _is_short(number):
            return _message(number, data)
        case {"id": int() | str() | None as number, "error": {"code": int(code), **error}}:
            return RelayRefusal(number, code, _word(error))
        case {"id": int() | str() as number, "result": result}:
            return RelayAnswer(number, result)
    raise RelayFault("neither message nor answer")


def _is_short(number: int | str) -> bool:
    return len(number) <= _ID_CHARACTERS if isinstance(number, str) else abs(number) < 1 << 64


def refused_topics(topics: Sequence[str], result: object) -> list[str]:
    """Those that the relay has not subscribed us to, by its answer for `topics`. Raises `RelayFault`.

    https://github.com/WalletConnect/WalletConnectRust/blob/main/relay_rpc/src/rpc.rs (SubscriptionResult)
    """
    match result:
        case list(results) if len(results) == len(topics):
            return [topic for topic, one in zip(topics, results, strict=True) if not _is_subscription(one)]
    raise RelayFault("no result for each topic")


def _is_subscription(result: object) -> bool:
    match result:
        case {"id": str()}:
            return True
        case {"error": _}:
            return False
    raise RelayFault("neither subscription nor error")


def _message(number: RequestId, data: Mapping[object, object]) -> RelayMessage:
    match data:
        case {"topic": str(topic), "message": str(message), "publishedAt": int(published_at)} if published_at >= 0:
            tag = data.get("tag")
            return RelayMessage(
                id=number,
                topic=topic,
                message=message,
                tag=tag if isinstance(tag, int) else 0,
                published_at=published_at,
            )
    raise RelayFault("a message without topic, content or time")


def _word(error: Mapping[object, object]) -> str:
    """The relay's `data`, where that is one word: anything else may quote what we sent."""
    word = error.get("data")
    return word if isinstance(word, str) and _WORD.fullmatch(word) else "no reason"
