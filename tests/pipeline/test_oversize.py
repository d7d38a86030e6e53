"""Statements that were too large for a message, and observations that came to nothing."""

from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sr25519
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.messages import EnvelopeMessage
from clarion.networks.statements.codec import Statement
from clarion.networks.statements.signature import sign
from pipeline import replay
from pipeline.lake import HOUR_MS, SCHEMAS, Kind, Lake, Period, hour_columns
from pipeline.oversize import fetched
from pipeline.reconcile import Terms, reconcile

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
PERIOD, NOW = Period(START, START + HOUR_MS), START + 2 * HOUR_MS
AT = START + 60_000
KEYS = sr25519.pair_from_seed(sha256(b"alice").digest())
TOPIC, CLIENT, SUBSCRIPTION = b"t" * 32, b"c" * 32, str(UUID(int=7))
KEPT, GONE, DECIDED, FIRST, SECOND = (str(UUID(int=number)) for number in range(1, 6))


def states(number: int) -> Statement:
    return sign(Statement(0xFFFFFFFF << 32 | number, (TOPIC,), bytes(300_000)), KEYS)


def place(receipt: str) -> str:
    return f"statements/{receipt}"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Alice is wanted. Of three large statements one was decided, and the object of another has expired.

    A small one was observed by two tasks, and the second one's receipt was pushed.
    """
    oversize = tmp_path_factory.mktemp("oversize")
    (oversize / "statements").mkdir()
    (oversize / place(KEPT)).write_bytes(states(1).encoded)
    lake = Lake(spark, str(tmp_path_factory.mktemp("lake")), str(oversize))
    twice = sign(Statement(0xFFFFFFFF << 32, (TOPIC,), b"small"), KEYS)
    observed: list[Any] = [(AT, receipt, AT, None, place(receipt)) for receipt in (KEPT, GONE, DECIDED)]
    observed += [(AT, receipt, AT, twice.encoded, None) for receipt in (FIRST, SECOND)]
    large = states(2)
    _write(lake, Kind.OBSERVED, observed)
    _write(lake, Kind.STATEMENT, [_decided(DECIDED, large), _decided(SECOND, twice)])
    _write(lake, Kind.NOTIFICATION, [_queued(DECIDED, large), _queued(SECOND, twice)])
    _write(lake, Kind.PUSH, [_pushed(DECIDED, large), _pushed(SECOND, twice)])
    _write(lake, Kind.SUBSCRIPTION, [(1, SUBSCRIPTION, CLIENT, "fcm", "active", None, 1, 1)])
    _write(lake, Kind.RULES, [(1, "added", SUBSCRIPTION, 1, 1, [(KEYS[0], TOPIC, None)])])
    return lake


def _write(lake: Lake, kind: Kind, rows: list[Any]) -> None:
    frame = lake.spark.createDataFrame(rows, SCHEMAS[kind])
    lake.write(kind, frame.select("*", *hour_columns(F.col("at"))))


def _decided(receipt: str, statement: Statement) -> tuple[object, ...]:
    return AT + 20, receipt, statement.hash, "matched", AT, KEYS[0], None


def _queued(receipt: str, statement: Statement) -> tuple[object, ...]:
    return AT + 20, receipt, statement.hash, "queued", SUBSCRIPTION, CLIENT, "fcm", KEYS[0], TOPIC, 1, AT, True


def _pushed(receipt: str, statement: Statement) -> tuple[object, ...]:
    return AT + 99, receipt, statement.hash, "delivered", SUBSCRIPTION, "fcm", 1, 99, 200, None, None


@pytest.fixture(scope="module")
def found(lake: Lake) -> DataFrame:
    return reconcile(lake, PERIOD, NOW, Terms()).persist()


def test_what_was_observed_and_never_decided_is_missing_and_nothing_else_is(found: DataFrame) -> None:
    told = {tuple(row) for row in found.select("receipt", "subscription_id", "difference", "evidence").collect()}
    assert told == {
        (KEPT, SUBSCRIPTION, "missing", "never decided"),
        (GONE, None, "missing", f"never decided, and nothing is left at {place(GONE)}"),
    }


def test_a_large_statement_is_replayed_by_its_location(lake: Lake, found: DataFrame) -> None:
    planned = replay.plan(lake, found, PERIOD, NOW, dry_run=False)
    assert (planned.notifications, planned.messages, planned.expired) == (1, 1, 0)
    [row] = lake.plans().collect()
    message = EnvelopeMessage.model_validate_json(row["message"])
    assert (str(message.receipt), message.location, message.statement) == (KEPT, place(KEPT), None)


def test_without_their_bucket_large_statements_are_not_judged(lake: Lake) -> None:
    assert reconcile(Lake(lake.spark, lake.root), PERIOD, NOW, Terms()).count() == 0


def test_objects_are_read_one_at_a_time_and_only_where_there_is_no_statement(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"large")
    reading = fetched(str(tmp_path), [b"small", None, None], [None, "there", "gone"])
    assert next(reading) == b"small"
    assert next(reading) == b"large"
    (tmp_path / "gone").write_bytes(b"just in time")
    assert next(reading) == b"just in time"
    assert list(fetched(None, [None], ["there"])) == [None]
