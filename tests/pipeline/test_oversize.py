"""Envelopes that were too large for a message, and observations that came to nothing."""

from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sr25519
from pyspark.sql import DataFrame, SparkSession

from clarion.messages import RemainderMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import Statement
from clarion.networks.statements.rules import key_of
from clarion.networks.statements.signature import sign
from clarion.storage import OVERSIZE_PREFIX
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.jobs import reconcile as reconcile_job
from pipeline.lake.event_lake import EventLake
from pipeline.period import HOUR_MS, Period, instant_text
from pipeline.reconciliation.reconcile import reconcile
from pipeline.reconciliation.verify import fetched
from pipeline.repair import replay
from pipeline.terms import Terms
from tests.pipeline.conftest import copied
from tests.pipeline.small_lake import write_rows

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
PERIOD, NOW = Period(START, START + HOUR_MS), START + 2 * HOUR_MS
AT = START + 60_000
KEYS = sr25519.pair_from_seed(sha256(b"alice").digest())
TOPIC, CLIENT, SUBSCRIPTION = b"t" * 32, b"c" * 32, str(UUID(int=7))
KEY = key_of(KEYS[0], TOPIC)
KEPT, GONE, DECIDED, FIRST, SECOND = (str(UUID(int=number)) for number in range(1, 6))


def states(number: int) -> Statement:
    return sign(Statement(0xFFFFFFFF << 32 | number, (TOPIC,), bytes(300_000)), KEYS)


def place(receipt: str) -> str:
    return f"{OVERSIZE_PREFIX}{receipt}"


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """Alice is wanted. Of three large statements one was decided, and the object of another has expired.

    A small one was observed by two tasks, and the second one's receipt was pushed.
    """
    oversize = tmp_path_factory.mktemp("oversize")
    (oversize / OVERSIZE_PREFIX).mkdir()
    (oversize / place(KEPT)).write_bytes(states(1).encoded)
    lake = EventLake(spark, str(tmp_path_factory.mktemp("lake")), str(oversize))
    twice = sign(Statement(0xFFFFFFFF << 32, (TOPIC,), b"small"), KEYS)
    observed: list[Any] = [(AT, STATEMENTS, receipt, AT, None, place(receipt)) for receipt in (KEPT, GONE, DECIDED)]
    observed += [(AT, STATEMENTS, receipt, AT, twice.encoded, None) for receipt in (FIRST, SECOND)]
    large = states(2)
    write_rows(lake, EventKind.OBSERVED, observed)
    write_rows(lake, EventKind.ENVELOPE, [_decided(DECIDED, large), _decided(SECOND, twice)])
    write_rows(lake, EventKind.NOTIFICATION, [_queued(DECIDED, large), _queued(SECOND, twice)])
    write_rows(lake, EventKind.PUSH, [_pushed(DECIDED, large), _pushed(SECOND, twice)])
    write_rows(lake, EventKind.SUBSCRIPTION, [(1, STATEMENTS, SUBSCRIPTION, CLIENT, "fcm", "active", None, 1, 1)])
    write_rows(lake, EventKind.RULES, [(1, STATEMENTS, "added", SUBSCRIPTION, 1, 1, [(KEY, None, None)])])
    return lake


def _decided(receipt: str, statement: Statement) -> tuple[object, ...]:
    return AT + 20, STATEMENTS, receipt, statement.hash, "matched", AT, KEYS[0], None


def _queued(receipt: str, statement: Statement) -> tuple[object, ...]:
    return (
        AT + 20, STATEMENTS, receipt, statement.hash, "queued", SUBSCRIPTION, CLIENT, "fcm", KEYS[0], KEY, 1, AT, True, None,
    )  # fmt: skip


def _pushed(receipt: str, statement: Statement) -> tuple[object, ...]:
    who = statement.hash, "delivered", "notification", SUBSCRIPTION
    return AT + 99, STATEMENTS, receipt, *who, "fcm", 1, 99, 200, *[None] * 3


@pytest.fixture(scope="module")
def found(lake: EventLake) -> DataFrame:
    return reconcile(lake, PERIOD, NOW, Terms()).differences.persist()


def test_what_was_observed_and_never_decided_is_missing_and_nothing_else_is(found: DataFrame) -> None:
    differences = {tuple(row) for row in found.select("receipt", "subscription_id", "difference", "evidence").collect()}
    assert differences == {
        (KEPT, SUBSCRIPTION, "missing", "never decided"),
        (GONE, None, "missing", f"never decided, and nothing is left at {place(GONE)}"),
    }


def test_a_large_envelope_is_replayed_by_its_location(lake: EventLake, found: DataFrame) -> None:
    planned = replay.plan(lake, found, PERIOD, NOW, dry_run=False)
    assert (planned.messages, planned.expired) == (1, 0)
    [row] = lake.plans(since=0).collect()
    message = RemainderMessage.model_validate_json(row["message"])
    assert (str(message.receipt), message.location, message.raw) == (KEPT, place(KEPT), None)


def test_without_their_bucket_large_envelopes_are_not_judged(lake: EventLake) -> None:
    assert reconcile(EventLake(lake.spark, lake.root), PERIOD, NOW, Terms()).differences.count() == 0


def test_a_strict_run_without_their_bucket_names_large_envelopes(lake: EventLake, tmp_path: Path) -> None:
    alone = copied(lake, tmp_path)
    period = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end), "--now", instant_text(NOW)]
    wanted = arguments.parse(["reconcile", "--strict", "--lake", alone.root, *period])
    assert JOBS["reconcile"](alone, wanted) == 1
    [why] = wanted.findings
    assert "3 large envelopes were not read" in why
    assert reconcile_job.unread_earlier(alone, PERIOD) == 3


def test_a_strict_run_names_large_envelopes_that_were_decided_and_are_not_where_it_looks(
    lake: EventLake, tmp_path: Path
) -> None:
    """Their objects are gone, or the bucket is another one. What was never decided is missing."""
    alone = EventLake(lake.spark, copied(lake, tmp_path).root, lake.oversize)
    period = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end), "--now", instant_text(NOW)]
    wanted = arguments.parse(["reconcile", "--strict", "--lake", alone.root, *period])
    assert JOBS["reconcile"](alone, wanted) == 1
    [why] = wanted.findings
    assert "2 differences, 1 large envelopes were not read" in why
    assert reconcile_job.unread_earlier(alone, PERIOD) == 1


def test_objects_are_read_one_at_a_time_and_only_where_there_is_no_envelope(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"large")
    reading = fetched(str(tmp_path), [b"small", None, None], [None, "there", "gone"])
    assert next(reading) == b"small"
    assert next(reading) == b"large"
    (tmp_path / "gone").write_bytes(b"just in time")
    assert next(reading) == b"just in time"
    assert list(fetched(None, [None], ["there"])) == [None]
