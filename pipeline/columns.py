"""The kinds of events in the lake and the columns of their rows, for whoever reads them without Spark."""

from enum import StrEnum
from typing import NamedTuple

LINKS = "symlinks"
"""The folder of the lists that Athena reads: see `pipeline.links`."""
FILE_NAMES = {"at": "happened_at", "order": "window_version", "window": "count_window"}
"""Columns that have another name in the lake's files than in events: SQL reserves these words, in DuckDB or Athena."""
UNREADABLE = "unreadable"
"""The kind of the lines that are of none."""


class EventKind(StrEnum):
    """The word in a line's `event`, and the folder of its Parquet."""

    OBSERVED = "observed"
    ENVELOPE = "envelope"
    NOTIFICATION = "notification"
    PUSH = "push"
    SUBSCRIPTION = "subscription"
    RULES = "rules"
    LIMITS = "limits"


class Type(StrEnum):
    """In the words of Hive, which Athena and Spark share."""

    TEXT = "string"
    LONG = "bigint"
    INT = "int"
    BYTES = "binary"
    FLAG = "boolean"
    RULES = "array<struct<key:binary,condition:binary,condition_digest:binary>>"


class Column(NamedTuple):
    """`needed` ones are in every line of the kind."""

    name: str
    type: Type
    needed: bool = True

    @property
    def file_name(self) -> str:
        return file_name(self.name)


def file_name(column: str) -> str:
    return FILE_NAMES.get(column, column)


def _maybe(name: str, type_: Type) -> Column:
    return Column(name, type_, needed=False)


_EVENT = (Column("at", Type.LONG), Column("network", Type.TEXT))

COLUMNS: dict[EventKind, tuple[Column, ...]] = {
    EventKind.OBSERVED: (
        *_EVENT,
        Column("receipt", Type.TEXT),
        Column("observed_at", Type.LONG),
        _maybe("raw", Type.BYTES),
        _maybe("location", Type.TEXT),
    ),
    EventKind.ENVELOPE: (
        *_EVENT,
        Column("receipt", Type.TEXT),
        _maybe("envelope_id", Type.BYTES),
        Column("decision", Type.TEXT),
        Column("observed_at", Type.LONG),
        _maybe("sender", Type.BYTES),
        _maybe("reason", Type.TEXT),
    ),
    EventKind.NOTIFICATION: (
        *_EVENT,
        Column("receipt", Type.TEXT),
        Column("envelope_id", Type.BYTES),
        Column("decision", Type.TEXT),
        Column("subscription_id", Type.TEXT),
        Column("client_id", Type.BYTES),
        Column("channel", Type.TEXT),
        _maybe("sender", Type.BYTES),
        Column("key", Type.BYTES),
        _maybe("order", Type.LONG),
        _maybe("judged_at", Type.LONG),
        _maybe("counted", Type.FLAG),
        _maybe("own", Type.FLAG),
    ),
    EventKind.PUSH: (
        *_EVENT,
        Column("receipt", Type.TEXT),
        Column("envelope_id", Type.BYTES),
        Column("decision", Type.TEXT),
        _maybe("purpose", Type.TEXT),
        Column("subscription_id", Type.TEXT),
        _maybe("channel", Type.TEXT),
        Column("attempt", Type.INT),
        Column("latency_ms", Type.LONG),
        _maybe("status", Type.INT),
        _maybe("reason", Type.TEXT),
        _maybe("provider_id", Type.TEXT),
    ),
    EventKind.SUBSCRIPTION: (
        *_EVENT,
        Column("subscription_id", Type.TEXT),
        Column("client_id", Type.BYTES),
        Column("channel", Type.TEXT),
        Column("status", Type.TEXT),
        _maybe("status_reason", Type.TEXT),
        Column("generation", Type.LONG),
        Column("revision", Type.LONG),
    ),
    EventKind.RULES: (
        *_EVENT,
        Column("change", Type.TEXT),
        Column("subscription_id", Type.TEXT),
        Column("generation", Type.LONG),
        Column("revision", Type.LONG),
        Column("rules", Type.RULES),
    ),
    EventKind.LIMITS: (
        *_EVENT,
        _maybe("count", Type.LONG),
        _maybe("window", Type.LONG),
        _maybe("cooldown", Type.LONG),
        Column("cap", Type.LONG),
        Column("cap_window", Type.LONG),
    ),
}
"""In the order of the files."""
