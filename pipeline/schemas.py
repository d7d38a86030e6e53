"""The kinds of events in the lake and what their rows hold. docs/lake.md describes them for people."""

from enum import StrEnum

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

VERSION = 1
FILE_NAMES = {"at": "happened_at", "order": "window_version", "window": "count_window"}
"""Columns that have another name in the lake's files than in events: SQL reserves these words, in DuckDB or Athena."""


class EventKind(StrEnum):
    """The word in a line's `event`, and the folder of its Parquet."""

    OBSERVED = "observed"
    ENVELOPE = "envelope"
    NOTIFICATION = "notification"
    PUSH = "push"
    SUBSCRIPTION = "subscription"
    RULES = "rules"
    LIMITS = "limits"


def file_name(column: str) -> str:
    return FILE_NAMES.get(column, column)


def _field(name: str, kind: DataType, *, needed: bool = True) -> StructField:
    return StructField(name, kind, nullable=not needed)


_TEXT, _LONG, _INT, _BYTES, _FLAG = StringType(), LongType(), IntegerType(), BinaryType(), BooleanType()
_EVENT = [_field("at", _LONG), _field("network", _TEXT)]
RULE = StructType([
    StructField("key", _BYTES),
    StructField("condition", _BYTES),
    StructField("condition_digest", _BYTES),
])  # fmt: skip

SCHEMAS: dict[EventKind, StructType] = {
    EventKind.OBSERVED: StructType([
        *_EVENT,
        _field("receipt", _TEXT),
        _field("observed_at", _LONG),
        _field("raw", _BYTES, needed=False),
        _field("location", _TEXT, needed=False),
    ]),
    EventKind.ENVELOPE: StructType([
        *_EVENT,
        _field("receipt", _TEXT),
        _field("envelope_id", _BYTES, needed=False),
        _field("decision", _TEXT),
        _field("observed_at", _LONG),
        _field("sender", _BYTES, needed=False),
        _field("reason", _TEXT, needed=False),
    ]),
    EventKind.NOTIFICATION: StructType([
        *_EVENT,
        _field("receipt", _TEXT),
        _field("envelope_id", _BYTES),
        _field("decision", _TEXT),
        _field("subscription_id", _TEXT),
        _field("client_id", _BYTES),
        _field("channel", _TEXT),
        _field("sender", _BYTES, needed=False),
        _field("key", _BYTES),
        _field("order", _LONG, needed=False),
        _field("judged_at", _LONG, needed=False),
        _field("counted", _FLAG, needed=False),
        _field("own", _FLAG, needed=False),
    ]),
    EventKind.PUSH: StructType([
        *_EVENT,
        _field("receipt", _TEXT),
        _field("envelope_id", _BYTES),
        _field("decision", _TEXT),
        _field("purpose", _TEXT, needed=False),
        _field("subscription_id", _TEXT),
        _field("channel", _TEXT),
        _field("attempt", _INT),
        _field("latency_ms", _LONG),
        _field("status", _INT, needed=False),
        _field("reason", _TEXT, needed=False),
        _field("provider_id", _TEXT, needed=False),
    ]),
    EventKind.SUBSCRIPTION: StructType([
        *_EVENT,
        _field("subscription_id", _TEXT),
        _field("client_id", _BYTES),
        _field("channel", _TEXT),
        _field("status", _TEXT),
        _field("status_reason", _TEXT, needed=False),
        _field("generation", _LONG),
        _field("revision", _LONG),
    ]),
    EventKind.RULES: StructType([
        *_EVENT,
        _field("change", _TEXT),
        _field("subscription_id", _TEXT),
        _field("generation", _LONG),
        _field("revision", _LONG),
        _field("rules", ArrayType(RULE)),
    ]),
    EventKind.LIMITS: StructType([
        *_EVENT,
        _field("count", _LONG, needed=False),
        _field("window", _LONG, needed=False),
        _field("cooldown", _LONG, needed=False),
        _field("cap", _LONG),
        _field("cap_window", _LONG),
    ]),
}  # fmt: skip

DIFFERENCE = StructType([
    _field("difference", _TEXT),
    _field("evidence", _TEXT, needed=False),
    _field("receipt", _TEXT),
    _field("subscription_id", _TEXT, needed=False),
    _field("network", _TEXT, needed=False),
    _field("envelope_id", _BYTES, needed=False),
    _field("sender", _BYTES, needed=False),
    _field("client_id", _BYTES, needed=False),
    _field("key", _BYTES, needed=False),
    _field("channel", _TEXT, needed=False),
    _field("wanted", _TEXT, needed=False),
    _field("at", _LONG, needed=False),
])  # fmt: skip
"""What `reconcile` finds."""

PLAN = StructType([
    _field("run", _TEXT),
    _field("place", _LONG),
    _field("receipt", _TEXT),
    _field("subscription_id", _TEXT),
    _field("route", _TEXT),
    _field("message", _TEXT, needed=False),
])  # fmt: skip
"""What `replay` sends again: a row for each notification. Those of one envelope share one message: see `replay`."""
