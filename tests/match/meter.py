"""Counts what AWS would bill: requests, capacity units, bytes. Import this before the first client is made.

DynamoDB's rules: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import botocore.handlers
from botocore.model import OperationModel

from pipeline.prices import (
    FIREHOSE_BYTE,
    FIREHOSE_RECORD_BYTES,
    READ_UNIT,
    S3_GET,
    SECRET_GET,
    SQS_REQUEST,
    WRITE_UNIT,
)

READ_BYTES = 4096
WRITE_BYTES = 1024
SQS_BYTES = 64 * 1024


@dataclass
class Bill:
    """`requests` counts every call by its name; `sent` those that send to SQS, in billed portions.

    `received` counts the requests by which messages are received and deleted, `fetched` the objects that were got from
    S3, `secrets` those read from Secrets Manager. `streamed` is Firehose's bytes.
    """

    reads: float = 0
    writes: float = 0
    sent: int = 0
    received: int = 0
    fetched: int = 0
    secrets: int = 0
    streamed: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    @property
    def dollars(self) -> float:
        """For a million times what is billed here."""
        tables = self.reads * READ_UNIT + self.writes * WRITE_UNIT
        queues = (self.sent + self.received) * SQS_REQUEST
        fetched = self.fetched * S3_GET + self.secrets * SECRET_GET
        return tables + queues + fetched + self.streamed * FIREHOSE_BYTE


class Meter:
    def __init__(self) -> None:
        self._bill: Bill | None = None
        self._charges: Mapping[str, Callable[[Bill, dict[str, Any], dict[str, Any]], None]] = {
            "GetItem": _get,
            "BatchGetItem": _batch_get,
            "Query": _query,
            "PutItem": _put,
            "UpdateItem": _update,
            "SendMessageBatch": _send,
            "GetObject": _fetch,
            "GetSecretValue": _get_secret,
            "PutRecordBatch": _stream,
            "ReceiveMessage": _receive,
            "DeleteMessageBatch": _receive,
        }

    @contextmanager
    def running(self) -> Iterator[Bill]:
        self._bill = bill = Bill()
        try:
            yield bill
        finally:
            self._bill = None

    def note(self, params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        context["metered"] = params

    def charge(self, model: OperationModel, parsed: dict[str, Any], context: dict[str, Any], **_: object) -> None:
        if self._bill is None:
            return
        self._bill.requests[model.name] += 1
        if model.name not in self._charges:
            raise NotImplementedError(f"nobody said what {model.name} costs")
        self._charges[model.name](self._bill, context["metered"], parsed)


def _get(bill: Bill, params: dict[str, Any], parsed: dict[str, Any]) -> None:
    bill.reads += _read_units(_size(parsed.get("Item", {})), consistent=params.get("ConsistentRead", False))


def _batch_get(bill: Bill, params: dict[str, Any], parsed: dict[str, Any]) -> None:
    # Only a projection comes back, but the whole item is billed: those read here are well below 4 KB.
    for asked in params["RequestItems"].values():
        bill.reads += len(asked["Keys"]) * _read_units(1, consistent=asked.get("ConsistentRead", False))


def _query(bill: Bill, params: dict[str, Any], parsed: dict[str, Any]) -> None:
    size = sum(_size(item) for item in parsed["Items"])
    bill.reads += _read_units(size, consistent=params.get("ConsistentRead", False))


def _put(bill: Bill, params: dict[str, Any], parsed: dict[str, Any]) -> None:
    bill.writes += ceil(max(_size(params["Item"]), _size(parsed.get("Item", {}))) / WRITE_BYTES)


def _update(bill: Bill, params: dict[str, Any], parsed: dict[str, Any]) -> None:
    # The item doesn't always come back: then it is as large as it was last, or well below 1 KB.
    name = (params["TableName"], repr(params["Key"]))
    found = parsed.get("Attributes") if params.get("ReturnValues") == "ALL_NEW" else parsed.get("Item")
    if found:
        _sizes[name] = _size(found)
    bill.writes += ceil(_sizes.get(name, 1) / WRITE_BYTES)


def _send(bill: Bill, params: dict[str, Any], _: dict[str, Any]) -> None:
    bill.sent += ceil(sum(len(entry["MessageBody"]) for entry in params["Entries"]) / SQS_BYTES)


def _fetch(bill: Bill, _: dict[str, Any], __: dict[str, Any]) -> None:
    bill.fetched += 1


def _get_secret(bill: Bill, _: dict[str, Any], __: dict[str, Any]) -> None:
    bill.secrets += 1


def _stream(bill: Bill, params: dict[str, Any], _: dict[str, Any]) -> None:
    bill.streamed += sum(
        ceil(len(record["Data"]) / FIREHOSE_RECORD_BYTES) * FIREHOSE_RECORD_BYTES for record in params["Records"]
    )


def _receive(bill: Bill, _: dict[str, Any], parsed: dict[str, Any]) -> None:
    received = sum(len(message["Body"]) for message in parsed.get("Messages", ()))
    bill.received += max(1, ceil(received / SQS_BYTES))


def _read_units(size: int, *, consistent: bool) -> float:
    return max(1, ceil(size / READ_BYTES)) * (1 if consistent else 0.5)


def _size(item: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(len(name) + _value_size(*next(iter(value.items()))) for name, value in item.items())


def _value_size(kind: str, value: Any) -> int:
    if kind == "N":
        return len(value.lstrip("-")) // 2 + 2
    return 1 if kind == "BOOL" else len(value)


_sizes: dict[tuple[str, str], int] = {}
"""Bytes of rows that came back when they were updated."""
meter = Meter()
botocore.handlers.BUILTIN_HANDLERS += [
    ("before-parameter-build", meter.note),
    ("after-call", meter.charge),
]
