"""Health of a task, over HTTP: whether it is ready. What else the answer says is for people."""

import asyncio
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus

_REQUEST_SECONDS = 5.0


async def serve_health(
    host: str, port: int, is_ready: Callable[[], bool], status: Callable[[], Mapping[str, object]]
) -> asyncio.Server:
    """Answer every HTTP request with `status` as JSON, under 503 until the task is ready."""

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

    return await asyncio.start_server(answer, host, port)
