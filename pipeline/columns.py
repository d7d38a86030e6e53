"""The kinds of events in the lake and the columns of their rows, for readers without Spark."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, Purpose, PushDecision, SubscriptionStatus
from clarion.networks import NETWORKS

LINKS = "symlinks"
"""The folder of the lists that Athena reads: see `pipeline.lake.commits`."""
FILE_NAMES = {"at": "happened_at", "order": "window_version", "window": "count_window"}
"""Columns that have another name in the lake's files than in events: SQL reserves these words, in DuckDB or Athena."""
VERSION = 1
"""Of the lines that are read here."""
UNREADABLE = "unreadable"
"""The kind of the lines that are of none."""
NOTIFICATION_KEY = ("receipt", "subscription_id")
"""One notification: one receipt of an envelope, for one subscription."""
REMOVED = "removed"
"""The status of a subscription, and the change of a rule, that is no more."""


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
    """`needed` ones are in every line of the kind. Where there are `words`, it is one of them."""

    name: str
    type: Type
    needed: bool = True
    words: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return file_name(self.name)


def file_name(column: str) -> str:
    return FILE_NAMES.get(column, column)


def _maybe(name: str, type_: Type) -> Column:
    return Column(name, type_, needed=False)


def _word(name: str, words: Iterable[str], *, needed: bool = True) -> Column:
    return Column(name, Type.TEXT, needed, tuple(map(str, words)))


_EVENT = (Column("at", Type.LONG), _word("network", NETWORKS))

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
        _word("decision", EnvelopeDecision),
        Column("observed_at", Type.LONG),
        _maybe("sender", Type.BYTES),
        _maybe("reason", Type.TEXT),
    ),
    EventKind.NOTIFICATION: (
        *_EVENT,
        Column("receipt", Type.TEXT),
        Column("envelope_id", Type.BYTES),
        _word("decision", NotificationDecision),
        Column("subscription_id", Type.TEXT),
        Column("client_id", Type.BYTES),
        _word("channel", Channel),
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
        _word("decision", PushDecision),
        _word("purpose", Purpose, needed=False),
        Column("subscription_id", Type.TEXT),
        _word("channel", Channel, needed=False),
        Column("attempt", Type.INT),
        Column("latency_ms", Type.LONG),
        _maybe("status", Type.INT),
        _maybe("reason", Type.TEXT),
        _maybe("provider_id", Type.TEXT),
        _maybe("given_up", Type.FLAG),
    ),
    EventKind.SUBSCRIPTION: (
        *_EVENT,
        Column("subscription_id", Type.TEXT),
        Column("client_id", Type.BYTES),
        _word("channel", Channel),
        _word("status", (*SubscriptionStatus, REMOVED)),
        _maybe("status_reason", Type.TEXT),
        Column("generation", Type.LONG),
        Column("revision", Type.LONG),
    ),
    EventKind.RULES: (
        *_EVENT,
        _word("change", ("added", REMOVED)),
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
