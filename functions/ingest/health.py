"""Health for ECS: an answer at all says that the event loop turns; what it says is for people.

A failed part ends the task by itself, and nodes or AWS services out of reach are no reason to start it anew.

    python -m ingest.health     exits with 0 if the task on this machine answers
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException

from ingest.settings import IngestSettings

_HOST = "127.0.0.1"
_SECONDS = 5.0


async def serve_health(port: int, status: Callable[[], Mapping[str, object]]) -> asyncio.Server:
    """Answer every HTTP request on the loopback address with `status` as JSON."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                await reader.readuntil(b"\r\n\r\n")
                body = json.dumps(status()).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, or didn't speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(answer, _HOST, port)


def main(port: int) -> int:
    """The exit code."""
    connection = HTTPConnection(_HOST, port, timeout=_SECONDS)
    try:
        connection.request("GET", "/health")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, HTTPException):
        return 1


if __name__ == "__main__":
    sys.exit(main(IngestSettings.from_environment().health_port))
