"""The relay's JSON-RPC: what any client may ask for, and what is shown to the subscribers among them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import count
from typing import Any, Protocol

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from local.provider import Clock
from local.walletconnect.mailbox import Mailbox, RelayedMessage

BATCH = 500
"""Topics of one request, and messages."""
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32700, -32600, -32601, -32602

type Methods = Mapping[str, Callable[[Any], Any]]
"""Each takes the request's parameters."""


class Publishing(Protocol):
    """The relay, as its clients' requests see it."""

    mailbox: Mailbox
    flowing: asyncio.Event
    now: Clock

    def publish(self, message: RelayedMessage, publisher: "Caller") -> None: ...
    def watch(self) -> None: ...


class Caller:
    """A client, known by its did:key."""

    def __init__(self, relay: Publishing, client: str) -> None:
        self.relay = relay
        self.client = client

    @property
    def methods(self) -> Methods:
        return {
            "irn_publish": self._publish,
            "irn_batchPublish": lambda params: all(self._publish(each) for each in _batch(params["messages"])),
            "irn_fetchMessages": lambda params: self._fetch([params["topic"]]),
            "irn_batchFetchMessages": lambda params: self._fetch(_batch(params["topics"])),
        }

    def _publish(self, params: Any) -> bool:
        published_at = int(1000 * self.relay.now())
        self.relay.publish(RelayedMessage.parsed(params, self.client, published_at), self)
        return True

    def _fetch(self, topics: list[str]) -> dict[str, Any]:
        messages, has_more = self.relay.mailbox.fetch(self.client, topics)
        return {"messages": [message.as_json() for message in messages], "hasMore": has_more}


class TopicSubscriber(Caller):
    """A client that is connected by WebSocket. `subscriptions` are their ids by topic."""

    def __init__(self, relay: Publishing, client: str, socket: ServerConnection, acknowledge: float) -> None:
        super().__init__(relay, client)
        self.subscriptions: dict[str, str] = {}
        self._socket = socket
        self._acknowledge = acknowledge
        self._outgoing = asyncio.Queue[str]()
        self._shown: dict[int, tuple[RelayedMessage, asyncio.TimerHandle]] = {}
        # Small enough for clients that read numbers as doubles.
        self._ids = count(int(1_000_000 * relay.now()))

    @property
    def methods(self) -> Methods:
        return {
            **super().methods,
            "irn_subscribe": lambda params: self._subscribe(params["topic"]),
            "irn_batchSubscribe": lambda params: [self._subscribe(topic) for topic in _batch(params["topics"])],
            "irn_batchSubscribeBlocking": lambda params: [
                {"id": self._subscribe(topic)} for topic in _batch(params["topics"])
            ],
            "irn_unsubscribe": self._unsubscribe,
            "irn_batchUnsubscribe": lambda params: all(
                self._unsubscribe(each) for each in _batch(params["subscriptions"])
            ),
        }

    @property
    def unacknowledged(self) -> list[RelayedMessage]:
        return [message for message, _ in self._shown.values()]

    def offer(self, message: RelayedMessage) -> None:
        if message.topic in self.subscriptions:
            self._show(next(self._ids), message)

    def end(self) -> None:
        self._socket.transport.abort()

    async def converse(self) -> None:
        sending = asyncio.create_task(self._send())
        try:
            with suppress(ConnectionClosed):
                async for text in self._socket:
                    self._receive(text)
        finally:
            sending.cancel()
            self.subscriptions.clear()
            for _, timer in self._shown.values():
                timer.cancel()

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                text = await self._outgoing.get()
                await self.relay.flowing.wait()
                await self._socket.send(text)

    def _receive(self, text: str | bytes) -> None:
        if (number := _acknowledged(text)) is None:
            self._outgoing.put_nowait(answer_to(self.methods, text))
        elif number in self._shown:
            _, timer = self._shown.pop(number)
            timer.cancel()

    def _subscribe(self, topic: str) -> str:
        self.subscriptions[topic] = sha256(f"{topic}{self.client}".encode()).hexdigest()
        self.relay.watch()
        # After the answer, which tells the client the subscription's id.
        asyncio.get_running_loop().call_soon(self._show_kept, topic)
        return self.subscriptions[topic]

    def _unsubscribe(self, params: Any) -> bool:
        """Also of what is not subscribed to any more: wallets say so twice when they hear twice of a deletion."""
        if self.subscriptions.get(params["topic"]) == params["id"]:
            del self.subscriptions[params["topic"]]
        return True

    def _show_kept(self, topic: str) -> None:
        for message in self.relay.mailbox.of(topic):
            self.offer(message)

    def _show(self, number: int, message: RelayedMessage) -> None:
        """Again and again, until it is acknowledged."""
        params = {"id": self.subscriptions.get(message.topic), "data": message.as_json()}
        request = {"id": number, "jsonrpc": "2.0", "method": "irn_subscription", "params": params}
        self._outgoing.put_nowait(json.dumps(request))
        timer = asyncio.get_running_loop().call_later(self._acknowledge, self._show, number, message)
        self._shown[number] = message, timer


def answer_to(methods: Methods, text: str | bytes) -> str:
    """To a request as it came."""
    answer: dict[str, Any] = {"id": None, "jsonrpc": "2.0"}
    try:
        answer["id"], method, params = _parsed(text)
        answer["result"] = _result(methods, method, params)
    except _RelayError as error:
        answer["error"] = {"code": error.code, "message": str(error)}
    except (KeyError, TypeError, ValueError) as error:
        answer["error"] = {"code": _INVALID_PARAMS, "message": f"Invalid params: {error}"}
    return json.dumps(answer)


class _RelayError(Exception):
    """Becomes the `error` of an answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _result(methods: Methods, method: str, params: Any) -> Any:
    if method not in methods:
        raise _RelayError(_METHOD_NOT_FOUND, "Method not found")
    return methods[method](params)


def _parsed(text: str | bytes) -> tuple[int | str, str, Any]:
    try:
        request = json.loads(text)
    except ValueError as error:
        raise _RelayError(_PARSE_ERROR, "Parse error") from error
    match request:
        case {"jsonrpc": "2.0", "id": int() | str() as number, "method": str(method), "params": params}:
            return number, method, params
    raise _RelayError(_INVALID_REQUEST, "Invalid request")


def _acknowledged(text: str | bytes) -> int | None:
    """The id of the message that this acknowledges, if it does."""
    with suppress(ValueError):
        match json.loads(text):
            case {"id": int(number), "result": True}:
                return number
    return None


def _batch[Item](items: list[Item]) -> list[Item]:
    if not 0 < len(items) <= BATCH:
        raise ValueError(f"not 1 to {BATCH}")
    return items
