"""A stand-in for APNs that costs next to nothing, so that a bench measures its clients and not its server.

    python bench/provider.py FOLDER [--delay-ms 50] [--fail-every 10]     # prints its port

It checks nothing and knows just enough HTTP/2 (RFC 9113) to answer each request with its own `apns-id`. FOLDER holds
the certificate: see `local.tls`.
"""

import argparse
import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast, override

from hpack import Decoder

from local.tls import Localhost

PREFACE = 24
FRAME_HEAD = 9
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE = 0x0, 0x1, 0x4, 0x6, 0x8
ACK = END_STREAM = 0x1
END_HEADERS = 0x4
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4
STREAMS = 1000
WINDOW = 1 << 24

# HPACK (RFC 7541): an entry of the static table, and literals that enter no table.
STATUS_200 = b"\x88"
STATUS_410 = b"\x08\x03410"
APNS_ID = b"\x00\x07apns-id"
GONE = b'{"reason":"Unregistered","timestamp":1700000000000}'


@dataclass(slots=True)
class Answers:
    """Seconds before each answer, and the how many-th is a refusal (0: none); `count` is of all connections."""

    delay: float
    fail_every: int
    count: int = 0

    def next(self, stream: bytes, apns_id: bytes) -> bytes:
        self.count += 1
        if self.fail_every and self.count % self.fail_every == 0:
            headers = frame(HEADERS, END_HEADERS, stream, STATUS_410 + APNS_ID + apns_id)
            return headers + frame(DATA, END_STREAM, stream, GONE)
        return frame(HEADERS, END_HEADERS | END_STREAM, stream, STATUS_200 + APNS_ID + apns_id)


class ProviderConnection(asyncio.Protocol):
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._unread = b""
        self._greeted = False
        self._received = 0
        self._id_at = -1
        self._ids: dict[bytes, bytes] = {}

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = setting(MAX_CONCURRENT_STREAMS, STREAMS) + setting(INITIAL_WINDOW_SIZE, WINDOW)
        self._send(frame(SETTINGS, 0, bytes(4), settings) + frame(WINDOW_UPDATE, 0, bytes(4), WINDOW.to_bytes(4)))

    @override
    def data_received(self, data: bytes) -> None:
        unread = self._unread + data
        at = 0
        if not self._greeted:
            at, self._greeted = PREFACE, True
        answers: list[bytes] = []
        while len(unread) - at >= FRAME_HEAD:
            start = at + FRAME_HEAD
            end = start + int.from_bytes(unread[at : at + 3])
            if end > len(unread):
                break
            self._take(unread[at + 3], unread[at + 4], unread[at + 5 : start], unread[start:end], answers)
            at = end
        self._unread = unread[at:]
        self._answer(answers)

    def _take(self, kind: int, flags: int, stream: bytes, content: bytes, answers: list[bytes]) -> None:
        if kind == HEADERS:
            self._ids[stream] = self._apns_id(content)
        elif kind == DATA:
            self._received += len(content)
        elif kind in {SETTINGS, PING} and not flags & ACK:
            self._send(frame(kind, ACK, stream, content if kind == PING else b""))
        if kind in {HEADERS, DATA} and flags & END_STREAM:
            answers.append(self._answers.next(stream, self._ids.pop(stream)))

    def _apns_id(self, block: bytes) -> bytes:
        """As it was encoded. The first request shows which header it is: a client keeps to its order."""
        if self._id_at < 0:
            names = [name for name, _ in Decoder().decode(block, raw=True)]
            self._id_at = names.index(b"apns-id")
        return literal(block, self._id_at)

    def _answer(self, answers: list[bytes]) -> None:
        if self._received > WINDOW // 2:
            self._send(frame(WINDOW_UPDATE, 0, bytes(4), self._received.to_bytes(4)))
            self._received = 0
        if not answers:
            return
        if self._answers.delay:
            asyncio.get_running_loop().call_later(self._answers.delay, self._send, b"".join(answers))
        else:
            self._send(b"".join(answers))

    def _send(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)


def frame(kind: int, flags: int, stream: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream + content


def setting(name: int, value: int) -> bytes:
    return name.to_bytes(2) + value.to_bytes(4)


def literal(block: bytes, number: int) -> bytes:
    """The encoded value of the block's `number`-th header, which is a literal. RFC 7541, section 6."""
    at = 0
    while True:
        first = block[at]
        if first & 0x80:
            at = after_integer(block, at, 0x7F)
        elif first & 0xE0 == 0x20:
            at = after_integer(block, at, 0x1F)
            continue
        else:
            prefix = 0x3F if first & 0x40 else 0x0F
            at = after_string(block, at + 1) if first & prefix == 0 else after_integer(block, at, prefix)
            value, at = at, after_string(block, at)
            if number == 0:
                return block[value:at]
        number -= 1


def after_integer(block: bytes, at: int, prefix: int) -> int:
    if block[at] & prefix < prefix:
        return at + 1
    at += 1
    while block[at] & 0x80:
        at += 1
    return at + 1


def after_string(block: bytes, at: int) -> int:
    size = block[at] & 0x7F
    if size < 0x7F:
        return at + 1 + size
    shift = 0
    at += 1
    while block[at] & 0x80:
        size += (block[at] & 0x7F) << shift
        shift += 7
        at += 1
    return at + 1 + size + (block[at] << shift)


async def serve(folder: Path, answers: Answers) -> None:
    context = Localhost.within(folder).server_context()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(ProviderConnection, answers), "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for APNs that is fast and checks nothing.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--fail-every", type=int, default=0)
    chosen = parser.parse_args()
    asyncio.run(serve(chosen.folder, Answers(chosen.delay_ms / 1000, chosen.fail_every)))


if __name__ == "__main__":
    main()
