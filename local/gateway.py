"""A stand-in for API Gateway's HTTP API: HTTP on a socket outside, payload 2.0 for a Lambda and its authorizer inside.

https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote
from uuid import uuid4

POLL_S = 0.05

type Event = dict[str, Any]
type Function = Callable[[Event], dict[str, Any]]

TEXT = ("text/", "application/json", "application/javascript", "application/xml")
"""What API Gateway hands on as text, whatever its bytes are; a body of any other kind becomes base64."""


def request_event(method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> Event:
    path, _, query = target.partition("?")
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]},{value}" if key in joined else value
    event: Event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": joined,
        "requestContext": {
            "http": {"method": method, "path": unquote(path), "sourceIp": "127.0.0.1"},
            "requestId": str(uuid4()),
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
    if query:
        parameters: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
        event["queryStringParameters"] = parameters
    if body:
        event |= _body(body, joined.get("content-type", ""))
    return event


def _body(body: bytes, media_type: str) -> Event:
    if media_type.startswith(TEXT):
        return {"body": body.decode(errors="replace"), "isBase64Encoded": False}
    return {"body": b64encode(body).decode(), "isBase64Encoded": True}


class Gateway:
    """Serves one function behind its authorizer on a free port of 127.0.0.1, one request at a time as a Lambda does."""

    def __init__(self, authorizer: Function, function: Function, port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(authorizer, function, Lock()))
        self._thread = Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(authorizer: Function, function: Function, lock: Lock) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            event = request_event(self.command, self.path, self.headers.items(), self.rfile.read(length))
            with lock:
                allowed = authorizer(event | {"type": "REQUEST"})
                if not allowed["isAuthorized"]:
                    self._send({"statusCode": 403, "body": json.dumps({"message": "Forbidden"})})
                    return
                event["requestContext"]["authorizer"] = {"lambda": allowed.get("context", {})}
                answer = function(event)
            self._send(answer)

        def _send(self, answer: dict[str, Any]) -> None:
            text = answer.get("body") or ""
            body = b64decode(text) if answer.get("isBase64Encoded") else text.encode()
            self.send_response(answer["statusCode"])
            for name, value in (answer.get("headers") or {}).items():
                self.send_header(name, value)
            if answer["statusCode"] != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The caller has its own record."""

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    return Handler
