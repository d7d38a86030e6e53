"""A registry of one image, by the HTTP API that registries speak, on this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"
TOKEN = "for anybody who asks"
BASE = "docker/library/python"
TAG = "3.13-slim"


@dataclass
class Registry:
    """`index` is what the tag leads to. It asks for a token as public registries do."""

    index: bytes
    address: str = ""

    @property
    def digest(self) -> str:
        return f"sha256:{sha256(self.index).hexdigest()}"

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        url = urlsplit(path)
        if url.path == "/token/":
            assert parse_qs(url.query) == {"service": [self.address], "scope": ["everything"]}
            return 200, {}, json.dumps({"token": TOKEN}).encode()
        if headers.get("authorization") != f"Bearer {TOKEN}":
            realm = f'Bearer realm="http://{self.address}/token/",service="{self.address}",scope="everything"'
            return 401, {"WWW-Authenticate": realm}, b""
        if url.path != f"/v2/{BASE}/manifests/{TAG}" or INDEX not in headers["accept"]:
            return 404, {}, b""
        return 200, {"Content-Type": INDEX, "Docker-Content-Digest": self.digest}, self.index


def index_of(*architectures: str) -> bytes:
    """Of images whose manifests are nowhere."""
    made = [
        {"digest": f"sha256:{sha256(each.encode()).hexdigest()}", "platform": {"os": "linux", "architecture": each}}
        for each in architectures
    ]
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": made}).encode()


@contextmanager
def serving(*architectures: str) -> Iterator[Registry]:
    registry = Registry(index_of(*architectures))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = {name.lower(): value for name, value in self.headers.items()}
            status, headers, body = registry.answer(self.path, given)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.address = f"127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
