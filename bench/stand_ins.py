"""Stand-ins for SQS and Firehose as far as ingest talks to them, since the emulator's slow to a crawl as they fill.

Of twenty calls each refuses one, and of another takes only half.
"""

import asyncio
import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import md5
from typing import TYPE_CHECKING, Any

from clarion.clock import now_ms
from clarion.events import EnvelopeObserved
from clarion.messages import MatchMessage, read_match_message
from clarion.networks.statements.codec import digest

if TYPE_CHECKING:
    from uuid import UUID

LATE_EVENTS = "/late-events"
"""What the URL of the queue of late events ends with."""
_MOST_BYTES = 1 << 23

type Answer = tuple[str, dict[str, Any]]
"""An HTTP status and the JSON under it."""


@asynccontextmanager
async def serving(answer: Callable[[dict[str, Any]], Answer]) -> AsyncIterator[str]:
    """Answer AWS's JSON protocols; yields the address."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                status, content = answer(json.loads(await reader.readexactly(length)))
                body = json.dumps(content).encode()
                start = f"HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}"
                writer.write(start.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=_MOST_BYTES)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


class _FaultSchedule:
    """How many of the entries of one call are taken after another; None if the whole call is refused."""

    def __init__(self) -> None:
        self._calls = 0

    def takes(self, entries: int) -> int | None:
        self._calls += 1
        if self._calls % 20 == 5:
            return None
        return entries // 2 if self._calls % 20 == 15 else entries


class QueueStandIn:
    """SQS's SendMessageBatch. Senders differ by the URL that they know their queue by."""

    def __init__(self) -> None:
        self.messages: list[MatchMessage] = []
        """In the order in which they came, repeated ones too."""
        self.received: Counter[bytes] = Counter()
        self.latencies: list[int] = []
        self.second_receipts = 0
        """How often a sender sent a statement again under another receipt."""
        self.late: set[bytes] = set()
        """The statements of late events."""
        self._receipts: dict[tuple[str, bytes], UUID] = {}
        self._faults = _FaultSchedule()
        self._senders: dict[int, str] = {}
        """Who sent last of each shard."""
        self._waiting: list[tuple[str, set[int], asyncio.Future[float]]] = []

    def taken_over_from(self, url: str) -> "asyncio.Future[float]":
        """The `time.monotonic` at which another sends something new of the shards that the sender known by `url` has now."""
        moment: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting.append((url, {shard for shard, sender in self._senders.items() if sender == url}, moment))
        return moment

    def answer(self, request: dict[str, Any]) -> Answer:
        entries: list[dict[str, str]] = request["Entries"]
        count = self._faults.takes(len(entries))
        if count is None:
            return "400 Bad Request", {"__type": "com.amazonaws.sqs#RequestThrottled"}
        taken, failed = entries[:count], entries[count:]
        for entry in taken:
            if request["QueueUrl"].endswith(LATE_EVENTS):
                self.late |= _statements(entry["MessageBody"].encode())
            else:
                self._keep(request["QueueUrl"], read_match_message(entry["MessageBody"]))
        answer = [{"Id": entry["Id"], "MessageId": entry["Id"], "MD5OfMessageBody": _md5(entry)} for entry in taken]
        return "200 OK", {
            "Successful": answer,
            "Failed": [{"Id": entry["Id"], "Code": "InternalError", "SenderFault": False} for entry in failed],
        }

    def _keep(self, sender: str, message: MatchMessage) -> None:
        statement = message.raw or b""
        self.messages.append(message)
        self.second_receipts += self._receipts.setdefault((sender, statement), message.receipt) != message.receipt
        if not self.received[statement]:
            self.latencies.append(now_ms() - message.observed_at)
            self._note_sender(digest(statement)[0], sender)
        self.received[statement] += 1

    def _note_sender(self, shard: int, sender: str) -> None:
        self._senders[shard] = sender
        for url, shards, moment in self._waiting:
            if url != sender and shard in shards and not moment.done():
                moment.set_result(time.monotonic())


class Stream:
    """Firehose's PutRecordBatch."""

    def __init__(self) -> None:
        self.recorded: set[bytes] = set()
        """The statements of all lines that were taken."""
        self._faults = _FaultSchedule()

    def answer(self, request: dict[str, Any]) -> Answer:
        records = [b64decode(record["Data"]) for record in request["Records"]]
        count = self._faults.takes(len(records))
        if count is None:
            return "500 Internal Server Error", {"__type": "ServiceUnavailableException"}
        self.recorded |= _statements(b"".join(records[:count]))
        refused = {"ErrorCode": "ServiceUnavailableException", "ErrorMessage": "Slow down."}
        return "200 OK", {
            "FailedPutCount": len(records) - count,
            "RequestResponses": [{"RecordId": "taken"} if n < count else refused for n in range(len(records))],
        }


def _statements(lines: bytes) -> set[bytes]:
    return {EnvelopeObserved.model_validate_json(line).raw or b"" for line in lines.splitlines()}


def _md5(entry: dict[str, str]) -> str:
    return md5(entry["MessageBody"].encode(), usedforsecurity=False).hexdigest()
