"""A Firehose that answers as it is set to, over a socket: late, not at all, or by closing the connection."""

import json
import os
import struct
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_LINGER, SOL_SOCKET, socket
from threading import Thread

import pytest

RESET = struct.pack("ii", 1, 0)
"""A socket that lingers for no time is reset when it is closed."""


class FirehoseServer(ThreadingHTTPServer):
    """Takes all lines. Each call's answer takes the next of `delays`, or no time; a status in `statuses` refuses it.

    With `resets_idle`, it resets a connection on which it has answered once, when it is asked there again.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.delays: list[float] = []
        self.statuses: list[int] = []
        self.resets_idle = False
        self.calls = 0
        self.lines: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def shutdown_request(self, request: socket | tuple[bytes, socket]) -> None:
        # Without the FIN that would come before a reset.
        self.close_request(request)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FirehoseServer
    asked_before = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        if self.asked_before and server.resets_idle:
            self.connection.setsockopt(SOL_SOCKET, SO_LINGER, RESET)
            self.close_connection = True
            return
        self.asked_before = True
        server.calls += 1
        status = server.statuses.pop(0) if server.statuses else 200
        records = [b64decode(record["Data"]) for record in json.loads(body)["Records"]]
        if status == 200:
            server.lines += [line for record in records for line in record.splitlines()]
        time.sleep(server.delays.pop(0) if server.delays else 0)
        taken = {"FailedPutCount": 0, "RequestResponses": [{"RecordId": "taken"} for _ in records]}
        self._answer(status, taken if status == 200 else {"__type": "ServiceUnavailableException"})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base calls it
        """Nobody reads it."""


@contextmanager
def served_firehose(monkeypatch: pytest.MonkeyPatch) -> Iterator[FirehoseServer]:
    """What clients made meanwhile ask."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with FirehoseServer() as server:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_FIREHOSE": server.url,
        }.items():
            monkeypatch.setenv(name, value)
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
