"""A stand-in for WalletConnect's relay: `irn`, its JSON-RPC, over WebSocket and by HTTP on one port.

A message is shown to whoever subscribes to its topic, until its time to live has passed: also to one who was shown it
before. One that is not acknowledged is shown again. Nobody is shown what they publish themselves on the same connection.

    async with Relay(localhost) as relay:
        …                                       # clients connect to `relay.url`, and publish to `/rpc` there as well
        await relay.until_published(lambda message: message.tag == 4002)
        relay.end_connections()                 # or `stall`, `resume`, `refuse`, `accept`, `stop`, `start`

https://github.com/WalletConnect/walletconnect-specs/tree/main/docs/specs/servers/relay
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Self
from urllib.parse import parse_qs, urlsplit

import jwt
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request
from websockets.http11 import Response as HandshakeResponse

from local.http1 import Http1Server
from local.http2 import Response, ServedRequest
from local.provider import Clock
from local.tls import Localhost
from local.walletconnect.codec import verified
from local.walletconnect.mailbox import Mailbox, RelayedMessage
from local.walletconnect.rpc import Caller, TopicSubscriber, answer_to

ACKNOWLEDGE_S = 10.0
_LEEWAY_S = 60
_MAX_MESSAGE = 1 << 22


class Relay:
    """An async context manager: it answers on localhost inside. Started again, it has the port it had before.

    `acknowledge` is how many seconds a subscriber has to acknowledge a message before it is shown again. The next
    requests by HTTP are answered with `failures`, as long as there are any.
    """

    def __init__(self, localhost: Localhost, *, acknowledge: float = ACKNOWLEDGE_S, now: Clock = time.time) -> None:
        self._context = localhost.server_context("http/1.1")
        self._acknowledge = acknowledge
        self._port = 0
        self.now = now
        self.mailbox = Mailbox(now)
        self.published: list[RelayedMessage] = []
        self.failures: deque[HTTPStatus] = deque()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._news = asyncio.Event()
        self._watched = asyncio.Event()
        self._subscribers: set[TopicSubscriber] = set()
        self._refusal: HTTPStatus | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self._sockets: Server = await serve(
            self._converse, "127.0.0.1", 0, process_request=self._admit, max_size=_MAX_MESSAGE, close_timeout=1
        )
        inner = next(iter(self._sockets.sockets)).getsockname()[1]
        self._server = Http1Server(self._respond, self._context, port=self._port, websocket_port=inner)
        await self._server.__aenter__()
        self._port = self._server.port

    async def stop(self) -> None:
        """As if its machine were gone; what it keeps it still has when it starts again."""
        self._watched.clear()
        await self._server.__aexit__()
        self._sockets.close()
        await self._sockets.wait_closed()

    @property
    def url(self) -> str:
        return f"wss://localhost:{self._port}"

    @property
    def rpc_url(self) -> str:
        return f"https://localhost:{self._port}/rpc"

    @property
    def subscribers(self) -> int:
        """Connections with at least one subscription."""
        return len(self._watching)

    @property
    def topics(self) -> set[str]:
        """Those that somebody subscribes to."""
        return {topic for subscriber in self._subscribers for topic in subscriber.subscriptions}

    @property
    def unacknowledged(self) -> list[RelayedMessage]:
        """What subscribers have been shown and may still acknowledge."""
        return [message for subscriber in self._subscribers for message in subscriber.unacknowledged]

    @property
    def _watching(self) -> list[TopicSubscriber]:
        return [subscriber for subscriber in self._subscribers if subscriber.subscriptions]

    async def until_watched(self) -> None:
        """Wait for a first subscription, also after `stop`, `refuse` and `end_connections`."""
        await self._watched.wait()

    async def until_published(self, holds: Callable[[RelayedMessage], bool]) -> RelayedMessage:
        """The first message of which this holds, once it is there."""
        while True:
            for message in self.published:
                if holds(message):
                    return message
            self._news.clear()
            await self._news.wait()

    def publish(self, message: RelayedMessage, publisher: Caller | None = None) -> None:
        self.mailbox.keep(message)
        self.published.append(message)
        self._news.set()
        for subscriber in self._subscribers:
            if subscriber is not publisher:
                subscriber.offer(message)

    def watch(self) -> None:
        """Somebody subscribes."""
        self._watched.set()

    def end_connections(self) -> None:
        """End all that are open; new ones are accepted."""
        self._watched.clear()
        for subscriber in self._subscribers:
            subscriber.end()

    def refuse(self, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> None:
        """End all connections, and answer so to whatever comes from now on, until `accept`."""
        self._refusal = status
        self.end_connections()

    def accept(self) -> None:
        self._refusal = None

    def stall(self) -> None:
        """Send nothing more to subscribers, answers included, though all stay connected, until `resume`."""
        self.flowing.clear()

    def resume(self) -> None:
        self.flowing.set()

    def _admit(self, socket: ServerConnection, request: Request) -> HandshakeResponse | None:
        status = self._flaw(request.path, request.headers.get("authorization"))
        return socket.respond(status, status.phrase) if status else None

    async def _converse(self, socket: ServerConnection) -> None:
        request = socket.request or Request("/", Headers())
        client = self._client(request.path, request.headers.get("authorization"))
        subscriber = TopicSubscriber(self, client, socket, self._acknowledge)
        self._subscribers.add(subscriber)
        try:
            await subscriber.converse()
        finally:
            self._subscribers.discard(subscriber)

    async def _respond(self, request: ServedRequest) -> Response:
        if urlsplit(request.path).path != "/rpc" or request.method != "POST":
            return Response(HTTPStatus.NOT_FOUND)
        if status := self._flaw(request.path, request.header("authorization")):
            return Response(status)
        if self.failures:
            return Response(self.failures.popleft())
        client = self._client(request.path, request.header("authorization"))
        answer = answer_to(Caller(self, client).methods, request.body)
        return Response(HTTPStatus.OK, (("content-type", "application/json"),), answer.encode())

    def _flaw(self, path: str, authorization: str | None) -> HTTPStatus | None:
        if self._refusal:
            return self._refusal
        with suppress(jwt.InvalidTokenError):
            self._client(path, authorization)
            return None
        return HTTPStatus.UNAUTHORIZED

    def _client(self, path: str, authorization: str | None) -> str:
        """The did:key of the client whose JWT this is, in the query or a header; raises `jwt.InvalidTokenError`."""
        query = parse_qs(urlsplit(path).query)
        token = query.get("auth", [(authorization or "").removeprefix("Bearer ")])[0]
        claims, now = verified(token), self.now()
        if "projectId" not in query or claims.get("aud") not in {self.url, self.url.replace("wss", "https")}:
            raise jwt.InvalidAudienceError
        if not claims["iat"] - _LEEWAY_S <= now <= claims["exp"]:
            raise jwt.ExpiredSignatureError
        client: str = claims["iss"]
        return client
