"""A development statement store: the JSON-RPC of a polkadot-sdk node over WebSocket, in memory.

    python -m local.store --port 9944

Two doors that a node doesn't have let the backend be tested against what a node may relay:

    --relay-unverified     submissions with a missing or forged signature are admitted
    dev_inject(["0x…"])    these bytes are announced as they are, unchecked, and again each time

https://github.com/paritytech/polkadot-sdk/tree/master/substrate/client/rpc-api/src/statement
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Self

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from clarion.networks.statements.codec import MalformedStatement
from local.lifetime import end_of_life
from local.pool import Kept, StatementPool, Verdict
from local.subscription import StoreSubscription, live_event, parse_filter, parse_hex

_MAX_MESSAGE = 16 << 20
_PARSE_ERROR, _INVALID_REQUEST, _METHOD_NOT_FOUND, _INVALID_PARAMS = -32700, -32600, -32601, -32602
_STATEMENT_ERROR = 7001


class StatementStore:
    """An async context manager: the node answers on 127.0.0.1 inside. Options as `StatementPool` has them."""

    def __init__(self, *, port: int = 0, relay_unverified: bool = False, now: Callable[[], float] = time.time) -> None:
        self._port = port
        self._pool = StatementPool(relay_unverified=relay_unverified, now=now)
        self._subscriptions: set[StoreSubscription] = set()
        self._opened = 0
        self._watched = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server: Server = await serve(
            self._converse, "127.0.0.1", self._port, max_size=_MAX_MESSAGE, compression=None, close_timeout=1
        )
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}"

    @property
    def subscribers(self) -> int:
        return len(self._subscriptions)

    async def until_watched(self) -> None:
        """Waits for the first subscription."""
        await self._watched.wait()

    async def submit(self, raw: bytes) -> Verdict:
        """As `statement_submit`, without the socket. Raises `MalformedStatement`."""
        verdict, kept = self._pool.submit(raw)
        if kept:
            await self._announce(kept)
        return verdict

    async def inject(self, raw: bytes) -> None:
        """Announces these bytes unchecked, known or not, as a node that relays unverified statements might."""
        await self._announce(self._pool.inject(raw))

    def subscribe(self, socket: ServerConnection, given: Any) -> StoreSubscription:
        """Takes `"any"` and the like; raises `ValueError`. The subscription waits for its `start`."""
        wants = parse_filter(given)
        self._opened += 1
        standing = [kept.raw for kept in self._pool if wants(kept.topics)]
        subscription = StoreSubscription(socket, f"subscription-{self._opened}", wants, standing)
        self._subscriptions.add(subscription)
        self._watched.set()
        return subscription

    def drop(self, subscription: StoreSubscription) -> None:
        self._subscriptions.discard(subscription)
        subscription.stop()

    async def _announce(self, kept: Kept) -> None:
        event = live_event(kept.raw)
        for subscription in [one for one in self._subscriptions if one.wants(kept.topics)]:
            if not subscription.offer(event):
                self.drop(subscription)
        await asyncio.sleep(0)  # let the subscriptions run: a burst must not overrun those that keep up

    async def _converse(self, socket: ServerConnection) -> None:
        conversation = _Conversation(self, socket)
        try:
            with suppress(ConnectionClosed):
                async for text in socket:
                    await conversation.reply(text)
        finally:
            conversation.end()


class _RpcError(Exception):
    """Becomes the `error` of a JSON-RPC answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Conversation:
    """One client's JSON-RPC requests, and the subscriptions they opened."""

    def __init__(self, store: StatementStore, socket: ServerConnection) -> None:
        self._store = store
        self._socket = socket
        self._subscriptions: dict[str, StoreSubscription] = {}
        self._methods: dict[str, Callable[..., Awaitable[Any]]] = {
            "dev_inject": self._inject,
            "rpc_methods": self._rpc_methods,
            "statement_submit": self._submit,
            "statement_subscribeStatement": self._subscribe,
            "statement_unsubscribeStatement": self._unsubscribe,
        }

    async def reply(self, text: str | bytes) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": None}
        try:
            answer["id"], method, params = _parse_request(text)
            answer["result"] = await self._call(method, params)
        except _RpcError as error:
            answer["error"] = {"code": error.code, "message": str(error)}
        await self._socket.send(json.dumps(answer, separators=(",", ":")))
        for subscription in self._subscriptions.values():
            subscription.start()  # only now that the client has its name

    def end(self) -> None:
        for subscription in self._subscriptions.values():
            self._store.drop(subscription)

    async def _call(self, method: str, params: list[Any]) -> Any:
        if method not in self._methods:
            raise _RpcError(_METHOD_NOT_FOUND, "Method not found")
        try:
            return await self._methods[method](*params)
        except MalformedStatement as malformed:
            raise _RpcError(_STATEMENT_ERROR, f"Error decoding statement: {malformed}") from malformed
        except (TypeError, ValueError) as invalid:
            raise _RpcError(_INVALID_PARAMS, f"Invalid params: {invalid}") from invalid

    async def _rpc_methods(self) -> dict[str, list[str]]:
        return {"methods": list(self._methods)}

    async def _submit(self, statement: str) -> dict[str, str]:
        verdict = await self._store.submit(parse_hex(statement))
        return {"status": verdict.status} | ({"reason": verdict.reason} if verdict.reason else {})

    async def _inject(self, statement: str) -> bool:
        await self._store.inject(parse_hex(statement))
        return True

    async def _subscribe(self, given: Any) -> str:
        subscription = self._store.subscribe(self._socket, given)
        self._subscriptions[subscription.name] = subscription
        return subscription.name

    async def _unsubscribe(self, name: str) -> bool:
        subscription = self._subscriptions.pop(name, None)
        if subscription is None:
            return False
        self._store.drop(subscription)
        return True


def _parse_request(text: str | bytes) -> tuple[int | str, str, list[Any]]:
    try:
        request = json.loads(text)
    except ValueError as error:
        raise _RpcError(_PARSE_ERROR, "Parse error") from error
    match request:
        case {"jsonrpc": "2.0", "id": int() | str() as number, "method": str(method)}:
            params = request.get("params", [])
            if isinstance(params, list):
                return number, method, params
    raise _RpcError(_INVALID_REQUEST, "Invalid request")


async def _serve(options: argparse.Namespace) -> None:
    end = end_of_life()
    async with StatementStore(port=options.port, relay_unverified=options.relay_unverified) as store:
        print(store.url, flush=True)
        await end.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m local.store", description="A development statement store; prints its URL."
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--relay-unverified", action="store_true", help="admit missing and forged signatures")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
