"""A stand-in for the tables, the queues and the stream of wake-ups: `python -m bench.wake_ups DUE FOLDER` prints its address.

Messages are kept until they are received, and handed out once. FOLDER holds the key of the push messages' app.
"""

import asyncio
import json
import sys
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any
from uuid import UUID, uuid4

from bench.stand_ins import Answer, serving
from clarion.channels import Channel
from clarion.networks import STATEMENTS
from clarion.wake_ups import PERIODS
from local import keys

PAGE = 8_000
"""Entries of some 130 bytes in the megabyte that a query reads at a time."""
PERIOD = "20"
NOTHING = {"subscription_id": {"S": str(UUID(int=0))}}
CLIENT_ID = b64encode(bytes(32)).decode()


@contextmanager
def stand_in(due: int, folder: Path) -> Iterator[str]:
    """Yields its address."""
    command = [sys.executable, "-m", "bench.wake_ups", str(due), str(folder)]
    with Popen(command, stdout=PIPE, text=True) as process:
        try:
            yield "".join(islice(process.stdout or (), 1)).strip()
        finally:
            process.kill()


class WheelStandIn:
    """With so many who are due in each minute, all of them on iPhones."""

    def __init__(self, due: int, folder: Path) -> None:
        key = keys.load_apns_key(folder)
        self._due = due
        self._secret = {"key_id": key.key_id, "team_id": key.team_id, "private_key": key.private_key}
        self._queue: deque[str] = deque()
        self._latencies: list[int] = []
        """Milliseconds, by the events of the stream."""

    def answer(self, request: dict[str, Any]) -> Answer:
        match request:
            case {"ExpressionAttributeValues": values}:
                [slot] = [value["S"] for value in values.values()]
                found = self._query(slot, request.get("ExclusiveStartKey", NOTHING))
            case {"RequestItems": asked}:
                rows = {table: list(map(subscription, each["Keys"])) for table, each in asked.items()}
                found = {"Responses": rows, "UnprocessedKeys": {}}
            case {"Entries": [{"MessageBody": _}, *_] as entries}:
                found = self._send(entries)
            case {"MaxNumberOfMessages": most}:
                found = {"Messages": [received(self._queue.popleft()) for _ in range(min(most, len(self._queue)))]}
            case {"Records": records}:
                found = self._record(records)
            case {"SecretId": _}:
                found = {"SecretString": json.dumps(self._secret), "VersionId": "1"}
            case {"latencies": _}:
                found = {"latencies": self._latencies}
            case _:
                return "400 Bad Request", {"__type": "UnknownOperationException"}
        return "200 OK", found

    def _query(self, slot: str, start: dict[str, dict[str, str]]) -> dict[str, Any]:
        if slot == PERIODS:
            return page([{"slot": {"S": slot}, "subscription_id": {"S": PERIOD}}])
        begin = UUID(start["subscription_id"]["S"]).int + 1
        items = [entry(slot, number) for number in range(begin, min(begin + PAGE, self._due + 1))]
        return page(items) | ({"LastEvaluatedKey": items[-1]} if begin + PAGE <= self._due else {})

    def _send(self, entries: list[dict[str, str]]) -> dict[str, Any]:
        self._queue += [entry["MessageBody"] for entry in entries]
        return {"Successful": [{"Id": each["Id"], "MessageId": "m", "MD5OfMessageBody": "0" * 32} for each in entries]}

    def _record(self, records: list[dict[str, str]]) -> dict[str, Any]:
        lines = [line for record in records for line in b64decode(record["Data"]).splitlines()]
        self._latencies += [event["latency_ms"] for event in map(json.loads, lines) if event["decision"] == "delivered"]
        return {"FailedPutCount": 0, "RequestResponses": [{"RecordId": "taken"}] * len(records)}


def page(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Items": items, "Count": len(items), "ScannedCount": len(items)}


def entry(slot: str, number: int) -> dict[str, dict[str, str]]:
    return {
        "slot": {"S": slot},
        "subscription_id": {"S": str(UUID(int=number))},
        "network": {"S": STATEMENTS},
        "channel": {"S": Channel.APNS},
        "client_id": {"B": CLIENT_ID},
    }


def subscription(key: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """As far as dispatch reads it."""
    texts = {"network": STATEMENTS, "channel": Channel.APNS, "status": "active", "token": uuid4().hex * 2}
    numbers = dict.fromkeys(("generation", "rule_count", "created_at", "updated_at", "began_at"), "1")
    return {
        **key,
        "client_id": {"B": CLIENT_ID},
        **{name: {"S": value} for name, value in texts.items()},
        **{name: {"N": value} for name, value in numbers.items()},
    }


def received(body: str) -> dict[str, Any]:
    return {"MessageId": str(uuid4()), "ReceiptHandle": "handle", "Body": body}


async def serve(due: int, folder: Path) -> None:
    """Until it is killed."""
    async with serving(WheelStandIn(due, folder).answer) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
