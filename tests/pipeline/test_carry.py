"""An object of the lake expires by its age; what is in force has to outlive that, and nothing else may."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline.carry import CARRIED, carry_forward
from pipeline.lake import EventLake, hour_columns
from pipeline.limits import limit_history
from pipeline.period import DAY_MS, FOREVER, HOUR_MS, hour_path
from pipeline.rules import in_force, rule_changes
from pipeline.schemas import SCHEMAS, EventKind
from tests.pipeline.conftest import copied

KEEP_DAYS = 20
NETWORK = "statements"
START = 1_790_000_000_000 // DAY_MS * DAY_MS
CLIENT = b"c" * 32
LASTING, REPLACED, REMOVED, LATER = (bytes([number]) * 32 for number in range(4))

type Row = tuple[object, ...]


def day(number: int) -> int:
    return START + number * DAY_MS


def arrive(lake: EventLake, kind: EventKind, rows: Sequence[Row]) -> None:
    """Each line in the hour of its own time, as `compact` writes it; the time comes first in every kind."""
    frame = lake.spark.createDataFrame(list(rows), SCHEMAS[kind])
    lake.write(kind, frame.select("*", *hour_columns(F.col("at"))))


def subscribe(lake: EventLake, *states: tuple[int, str, str, int, int]) -> None:
    rows = [(at, NETWORK, who, CLIENT, "fcm", status, None, gen, rev) for at, who, status, gen, rev in states]
    arrive(lake, EventKind.SUBSCRIPTION, rows)


def change(lake: EventLake, *changes: tuple[int, str, str, int, int, Sequence[bytes]]) -> None:
    rows = [(at, NETWORK, *of_line, [(key, b"alert", None) for key in keys]) for at, *of_line, keys in changes]
    arrive(lake, EventKind.RULES, rows)


def expire(lake: EventLake, now: int) -> None:
    """As S3 does with what was written more than `KEEP_DAYS` ago."""
    oldest = f"day={hour_path(now - KEEP_DAYS * DAY_MS)[:10]}"
    for folder in Path(lake.root).glob("*/day=*"):
        if folder.name < oldest:
            shutil.rmtree(folder)


def live_on(lake: EventLake, first: int, last: int) -> None:
    """The days of `lake` from `first` to `last`, with a run every eighth."""
    for number in range(first, last + 1, 8):
        carry_forward(lake, day(number) + 2 * HOUR_MS, KEEP_DAYS)
        expire(lake, day(number))


def rules(lake: EventLake) -> list[tuple[str, bytes, int, int]]:
    found = in_force(rule_changes(lake.read(EventKind.RULES)), lake.read(EventKind.SUBSCRIPTION))
    rows = found.select("subscription_id", "key", "since", "until").collect()
    return sorted((row[0], bytes(row[1]), row[2], row[3]) for row in rows)


def whose(lake: EventLake) -> set[str]:
    """All that anything is known of."""
    kinds = (EventKind.SUBSCRIPTION, EventKind.RULES)
    return {row[0] for kind in kinds for row in lake.read(kind).select("subscription_id").distinct().collect()}


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """Three subscriptions: one has a rule to keep and some that ended, one is removed, and one's token is dead."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("begun")))
    subscribe(
        lake,
        (day(0), "kept", "active", 1, 1),
        (day(1), "kept", "active", 2, 3),
        (day(0), "gone", "active", 1, 1),
        (day(2), "gone", "removed", 1, 2),
        (day(0), "dead", "active", 1, 1),
        (day(2), "dead", "invalid", 1, 2),
    )
    change(
        lake,
        (day(0) + 1, "added", "kept", 1, 2, [REPLACED]),
        (day(1) - 1, "added", "kept", 2, 3, [LASTING, REMOVED]),
        (day(2), "removed", "kept", 2, 4, [REMOVED]),
        (day(0) + 1, "added", "gone", 1, 1, [LASTING]),
        (day(0) + 1, "added", "dead", 1, 1, [LASTING]),
    )
    return lake


@pytest.fixture(scope="module")
def aged(begun: EventLake, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """Two months later; not to be written to."""
    lake = copied(begun, tmp_path_factory.mktemp("aged"))
    live_on(lake, 3, 60)
    return lake


@pytest.fixture
def lived(begun: EventLake, tmp_path: Path) -> EventLake:
    return copied(begun, tmp_path)


def test_what_is_in_force_outlives_its_objects_and_what_has_ended_is_forgotten(aged: EventLake) -> None:
    assert rules(aged) == [("kept", LASTING, day(1), FOREVER)]
    assert whose(aged) == {"kept", "dead"}
    changes = rule_changes(aged.read(EventKind.RULES)).collect()
    assert {(bytes(row["key"]), bytes(row["condition"])) for row in changes} == {(LASTING, b"alert")}


def test_a_dead_subscription_that_comes_back_still_has_its_rules(aged: EventLake, tmp_path: Path) -> None:
    lake = copied(aged, tmp_path)
    subscribe(lake, (day(61), "dead", "active", 1, 3))
    assert ("dead", LASTING, day(61), FOREVER) in rules(lake)


def test_what_ends_after_it_was_carried_forward_ends_all_the_same(lived: EventLake) -> None:
    live_on(lived, 3, 27)
    subscribe(lived, (day(28), "dead", "removed", 1, 3))
    change(lived, (day(28), "removed", "kept", 2, 5, [LASTING]), (day(28), "added", "kept", 2, 6, [LATER]))
    live_on(lived, 29, 29)
    assert ("kept", LASTING, day(1), day(28)) in rules(lived)
    live_on(lived, 37, 77)
    assert rules(lived) == [("kept", LATER, day(28), FOREVER)]
    assert whose(lived) == {"kept"}


def test_a_second_run_writes_nothing_and_the_hours_that_compact_makes_are_left_alone(lived: EventLake) -> None:
    now = day(15)
    assert carry_forward(lived, now, KEEP_DAYS) == {EventKind.SUBSCRIPTION: 2, EventKind.RULES: 2, EventKind.LIMITS: 0}
    assert carry_forward(lived, now, KEEP_DAYS) == {EventKind.SUBSCRIPTION: 0, EventKind.RULES: 0, EventKind.LIMITS: 0}
    change(lived, (now, "added", "kept", 2, 5, [LATER]))  # in the same day, as `compact` writes it
    assert list(Path(lived.path(EventKind.RULES)).glob(f"day=*/hour={CARRIED}/*.parquet"))
    assert carry_forward(lived, now, KEEP_DAYS) == {EventKind.SUBSCRIPTION: 0, EventKind.RULES: 0, EventKind.LIMITS: 0}


def test_what_should_have_expired_is_not_brought_back(lived: EventLake) -> None:
    """Its hour was compacted anew, so that it is still there; what ended it may not be."""
    shutil.rmtree(Path(lived.path(EventKind.SUBSCRIPTION)) / f"day={hour_path(day(2))[:10]}")
    assert carry_forward(lived, day(KEEP_DAYS + 3), KEEP_DAYS) == {
        EventKind.SUBSCRIPTION: 0,
        EventKind.RULES: 0,
        EventKind.LIMITS: 0,
    }


def test_what_is_young_is_not_written_again(lived: EventLake) -> None:
    assert carry_forward(lived, day(9), KEEP_DAYS) == {
        EventKind.SUBSCRIPTION: 0,
        EventKind.RULES: 0,
        EventKind.LIMITS: 0,
    }


def test_the_last_limits_outlive_their_objects(lake: EventLake) -> None:
    """No worker has started since, so nothing has loaded them again."""
    arrive(lake, EventKind.LIMITS, [(day(0), NETWORK, 30, 60_000, 120_000, 300, 60_000)])
    arrive(lake, EventKind.LIMITS, [(day(1), NETWORK, 30, 60_000, 300_000, 300, 60_000)])
    live_on(lake, 3, 60)
    assert [row["cooldown"] for row in lake.read(EventKind.LIMITS).dropDuplicates().collect()] == [300_000]
    limit = limit_history(lake, day(61)).at(NETWORK, day(60)).limit
    assert limit
    assert limit.cooldown == 300_000
