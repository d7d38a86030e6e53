"""A headless Chromium of its own, driven by the DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from local.leash import leashed

ROOT = Path(__file__).parents[2]
BINARY = ROOT / ".tools" / "chromium"
"""Where `make .tools/chromium` puts it, as the gate does."""
PATIENCE = 300.0
"""Seconds until what should happen is given up on: on a busy machine a browser starts slowly."""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # a container's /dev/shm is too small for it
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_STOP_S = 5
_POLL_S = 0.05

type Event = dict[str, Any]


class DevToolsError(Exception):
    """A command was refused, or a script threw."""


class DevTools:
    """Commands to the browser and the events that come between the answers; for one task at a time."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._events: list[Event] = []

    async def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        command = {"id": next(self._numbers), "method": method, "params": params}
        await self._socket.send(json.dumps(command | ({"sessionId": session} if session else {})))
        while (answer := await self._receive()).get("id") != command["id"]:
            pass
        if "error" in answer:
            raise DevToolsError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    async def event(self, wanted: Callable[[Event], bool]) -> Event:
        """The first such event, also if it came before; each is given once."""
        while True:
            for position, event in enumerate(self._events):
                if wanted(event):
                    return self._events.pop(position)
            await self._receive()

    async def _receive(self) -> dict[str, Any]:
        """The next message, kept if it is an event."""
        message: dict[str, Any] = json.loads(await self._socket.recv())
        if "method" in message:
            self._events.append(message)
        return message

    async def attach(self, target: str) -> "Target":
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        return Target(self, attached["sessionId"])

    async def new_page(self) -> "Target":
        return await self.attach((await self.call("Target.createTarget", url="about:blank"))["targetId"])

    async def service_worker(self, origin: str) -> "Target":
        """That of the origin, which is running."""
        targets = (await self.call("Target.getTargets"))["targetInfos"]
        [found] = [each for each in targets if each["type"] == "service_worker" and each["url"].startswith(origin)]
        return await self.attach(found["targetId"])


class Target:
    """A page or a worker."""

    def __init__(self, devtools: DevTools, session: str) -> None:
        self._devtools = devtools
        self._session = session

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._devtools.call(method, self._session, **params)

    async def event(self, method: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The parameters of the first event of this name that is wanted."""

        def is_ours(event: Event) -> bool:
            return (event.get("sessionId"), event["method"]) == (self._session, method) and wanted(event["params"])

        async with asyncio.timeout(PATIENCE):
            params: dict[str, Any] = (await self._devtools.event(is_ours))["params"]
            return params

    async def evaluate(self, expression: str) -> Any:
        """The value, or what its promise comes to, as JSON has it."""
        options = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        evaluated = await self.call("Runtime.evaluate", expression=expression, **options)
        if "exceptionDetails" in evaluated:
            raise DevToolsError(evaluated["exceptionDetails"]["exception"].get("description", "a script threw"))
        return evaluated["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The expression's value, once it is neither null nor false nor empty."""
        async with asyncio.timeout(PATIENCE):
            while not (value := await self.evaluate(expression)):
                await asyncio.sleep(_POLL_S)
            return value


@asynccontextmanager
async def headless() -> AsyncIterator[DevTools]:
    """With a new profile, which is gone afterwards."""
    if not BINARY.exists():
        raise FileNotFoundError("there is no Chromium: make .tools/chromium")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, _running(Path(folder)) as process:
        url = await _debugger_url(Path(folder), process)
        async with connect(url, proxy=None, compression=None, max_size=None, ping_interval=None) as socket:
            yield DevTools(socket)


@contextmanager
def _running(profile: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = leashed(_STOP_S, BINARY, *_FLAGS, f"--user-data-dir={profile}", "about:blank")
    with (profile / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.communicate()  # closes standard input, which lets go of the leash


async def _debugger_url(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """From the file that Chromium writes once it listens: the port in a line, the path in the next."""
    file = profile / "DevToolsActivePort"
    async with asyncio.timeout(PATIENCE):
        while process.poll() is None:
            lines = file.read_text().split() if file.exists() else []
            if len(lines) == 2:
                return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
            await asyncio.sleep(_POLL_S)
    raise DevToolsError(f"Chromium did not start: {(profile / 'log').read_text()}")
