"""The page as an ASGI app: its files, the events, and what an item's steps were.

    request ─▶ _Protected ─▶ TrustedHost ─▶ _OwnOrigin ─▶ _Keyed ─▶ routes
               headers       400            403           404

All lies below a token that only its address holds, and is served to nobody who came by another host's name: a site that
has its name lead to this machine (DNS rebinding) gets nothing, and no other site knows the token. One that does can
still only lead there.
"""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from console.output import Report
from console.page.broadcast import Broadcast, Reading, sse

HOST = "127.0.0.1"
_WEB = Path(__file__).parent / "web"
_CHARTS = _WEB / "node_modules" / "uplot" / "dist"
_LONGEST_BODY = 10_000
MOST_STREAMS = 32
"""Tabs that listen at a time; each holds what it is behind."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

type Action = Callable[[Mapping[str, Any]], Awaitable[None]]
"""Raises `ActionError` for what is refused; of any other error its type is named, too."""


class ActionError(Exception):
    """The message is for whoever pressed the button."""


@dataclass(frozen=True)
class PageBackend:
    """What the page is over. `about` is its first event; a real deployment has no `actions`."""

    about: Mapping[str, Any]
    readings: Sequence[Reading]
    why: Callable[[str], Awaitable[Report | None]]
    actions: Mapping[str, Action] = field(default_factory=dict)


def new_token() -> str:
    return secrets.token_urlsafe(32)


def app(backend: PageBackend, token: str) -> Starlette:
    page = _Page(backend)
    routes = [
        Route("/", lambda _: FileResponse(_WEB / "index.html")),
        Route("/events", page.events),
        Route("/why/{key}", page.why),
        Route("/actions/{name}", page.act, methods=["POST"]),
        Mount("/charts", StaticFiles(directory=_CHARTS, check_dir=False)),
        Mount("/web", StaticFiles(directory=_WEB)),
    ]
    middleware = [
        Middleware(_Protected),
        Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False),
        Middleware(_OwnOrigin),
        Middleware(_Keyed, token=token),
    ]
    return Starlette(routes=routes, middleware=middleware)


class _Page:
    def __init__(self, backend: PageBackend) -> None:
        self._backend = backend
        self._broadcast = Broadcast(backend.readings)
        self._streams = 0

    async def events(self, _: Request) -> Response:
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503)
        return StreamingResponse(self._messages(), media_type="text/event-stream")

    async def _messages(self) -> AsyncIterator[str]:
        self._streams += 1
        try:
            yield sse("about", self._backend.about)
            async with aclosing(self._broadcast.messages()) as messages:
                async for message in messages:
                    yield message
        finally:
            self._streams -= 1

    async def why(self, request: Request) -> Response:
        found = await self._backend.why(request.path_params["key"])
        if found is None:
            raise HTTPException(404)
        return Response(found.model_dump_json(), media_type="application/json")

    async def act(self, request: Request) -> Response:
        action = self._backend.actions.get(request.path_params["name"])
        if action is None:
            raise HTTPException(404)
        if int(request.headers.get("content-length", _LONGEST_BODY + 1)) > _LONGEST_BODY:
            raise HTTPException(413)
        try:
            await action(_object(await request.json()))
        except Exception as error:  # noqa: BLE001 - whoever pressed the button gets to know, whatever it was
            return JSONResponse({"words": _words(error)}, 400)
        return Response(status_code=204)


def _words(error: Exception) -> str:
    match error:
        case ActionError():
            return str(error)
        case KeyError():
            return f"{error.args[0]} is missing"
        case JSONDecodeError():
            return "the request is no JSON"
        case _:
            return f"{type(error).__name__}: {error}"


def _object(asked: Any) -> Mapping[str, Any]:
    if not isinstance(asked, dict):
        raise TypeError("no JSON object")
    return asked


class _Protected:
    """Adds the headers that keep a browser from running, framing, keeping or passing on anything."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._inner(scope, receive, send_protected)


class _OwnOrigin:
    """Refuses what another site's script or form asks for; a browser says where a request began.

    https://www.w3.org/TR/fetch-metadata/, https://fetch.spec.whatwg.org/#origin-header
    """

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        origin, host = headers.get("origin"), headers.get("host")
        foreign = headers.get("sec-fetch-site") in {"cross-site", "same-site"} or origin not in {None, f"http://{host}"}
        opened = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate" and origin is None
        if foreign and not opened:
            await PlainTextResponse("another site asked for this", 403)(scope, receive, send)
        else:
            await self._inner(scope, receive, send)


class _Keyed:
    """Lets through what lies below the token, compared in constant time; the token alone leads there."""

    def __init__(self, inner: ASGIApp, token: str) -> None:
        self._inner = inner
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given, slash, _ = str(scope["path"]).removeprefix("/").partition("/")
        if not secrets.compare_digest(given.encode(errors="replace"), self._token):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
        elif not slash:
            await RedirectResponse(f"/{given}/")(scope, receive, send)
        else:
            await self._inner({**scope, "root_path": f"/{given}"}, receive, send)
