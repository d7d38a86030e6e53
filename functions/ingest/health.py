"""Health for ECS: whether the task is ready. What else the answer says is for people.

A deployment stops the tasks before once as many new ones are ready, `Task.is_ready`. From then on an answer at all says
that the event loop turns: a failed part ends the task by itself, and nodes or AWS services out of reach are no reason to
start it anew.

    python -m ingest.health     exits with 0 if the task on this machine is ready

The check runs beside the task on a part of a processor, so it imports nothing of the settings.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

DEFAULT_PORT = 8973
CHECK_SECONDS = 10.0
"""How long the check waits for an answer: while the rules are read, the event loop has little time."""
_REQUEST_SECONDS = 5.0
_HOST = "127.0.0.1"


async def serve_health(
    port: int, is_ready: Callable[[], bool], status: Callable[[], Mapping[str, object]]
) -> asyncio.Server:
    """Answer every HTTP request on the loopback address with `status` as JSON, under 503 until the task is ready."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await reader.readuntil(b"\r\n\r\n")
                code = HTTPStatus.OK if is_ready() else HTTPStatus.SERVICE_UNAVAILABLE
                body = json.dumps(status()).encode()
                head = f"HTTP/1.1 {code} {code.phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, or didn't speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(answer, _HOST, port)


def main(port: int) -> int:
    """The exit code."""
    connection = HTTPConnection(_HOST, port, timeout=CHECK_SECONDS)
    try:
        connection.request("GET", "/health")
        return 0 if connection.getresponse().status == HTTPStatus.OK else 1
    except (OSError, HTTPException):
        return 1


if __name__ == "__main__":
    sys.exit(main(int(os.environ.get("CLARION_HEALTH_PORT", DEFAULT_PORT))))
