"""Serves the page of `local/web`, and beside it the push service's stand-in, whose own certificate no browser trusts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, override

from local.http2 import Response, ServedRequest

FOLDER = Path(__file__).parent / "web"
POLL_S = 0.05

type Control = Callable[[ServedRequest], Response | None]
"""As `StandIn.control`."""


@contextmanager
def serving(control: Control = lambda _: None) -> Iterator[str]:
    """The page's origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, control)) as server:
        thread = Thread(target=server.serve_forever, args=(POLL_S,))
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, control: Control, *arguments: Any) -> None:
        self._control = control
        super().__init__(*arguments, directory=str(FOLDER))

    @override
    def do_GET(self) -> None:
        if not self._answered(b""):
            super().do_GET()

    def do_POST(self) -> None:
        if not self._answered(self.rfile.read(int(self.headers["content-length"]))):
            self.send_error(404)

    def _answered(self, body: bytes) -> bool:
        answer = self._control(ServedRequest(self.command, self.path, (), body))
        if answer is None:
            return False
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)
        return True

    @override
    def log_message(self, *_: object) -> None:
        """Nobody reads it."""
