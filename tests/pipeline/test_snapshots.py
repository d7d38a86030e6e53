"""An object of the lake expires by its age; what is in force has to outlive that, and nothing else may."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.known import known, write_snapshots
from pipeline.lake import EventLake, hour_columns
from pipeline.period import DAY_MS, FOREVER, HOUR_MS, hour_path
from pipeline.rules import in_force
from pipeline.schemas import SCHEMAS, EventKind
from pipeline.snapshots import day_of, snapshot_days
from tests.pipeline.conftest import copied

KEEP_DAYS = 20
NETWORK = "statements"
START = 1_790_000_000_000 // DAY_MS * DAY_MS
CLIENT = b"c" * 32
LASTING, REPLACED, REMOVED, LATER = (bytes([number]) * 32 for number in range(4))
RULES, SUBSCRIPTION = EventKind.RULES, EventKind.SUBSCRIPTION

type Row = tuple[object, ...]
type Change = tuple[int, str, str, int, int, Sequence[bytes]]
type State = tuple[int, str, str, int, int]
type Span = tuple[str, bytes, int, int]


def day(number: int) -> int:
    return START + number * DAY_MS


def arrive(lake: EventLake, kind: EventKind, rows: Sequence[Row], at: int | None = None) -> None:
    """Each line in the hour `at`, or of its own time; the time comes first in every kind."""
    frame = lake.spark.createDataFrame(list(rows), SCHEMAS[kind])
    lake.write(kind, frame.select("*", *hour_columns(F.col("at") if at is None else F.lit(at))))


def subscribe(lake: EventLake, *states: State, at: int | None = None) -> None:
    rows = [(when, NETWORK, who, CLIENT, "fcm", status, None, gen, rev) for when, who, status, gen, rev in states]
    arrive(lake, SUBSCRIPTION, rows, at)


def change(lake: EventLake, *changes: Change, at: int | None = None) -> None:
    rows = [(when, NETWORK, *line, [(key, b"alert", None) for key in keys]) for when, *line, keys in changes]
    arrive(lake, RULES, rows, at)


def expire(lake: EventLake, now: int) -> None:
    """As S3 does with what was written more than `KEEP_DAYS` ago."""
    oldest = f"day={hour_path(now - KEEP_DAYS * DAY_MS)[:10]}"
    for found in sorted(Path(lake.root).rglob("day=*")):
        if found.name < oldest:
            shutil.rmtree(found) if found.is_dir() else found.unlink()


def live_on(lake: EventLake, first: int, last: int) -> None:
    """The days of `lake` from `first` to `last`, with a run every eighth."""
    for number in range(first, last + 1, 8):
        write_snapshots(lake, day(number) + 2 * HOUR_MS)
        expire(lake, day(number))


def rules(lake: EventLake, now: int) -> list[Span]:
    return spans(known(lake, RULES, now, now), known(lake, SUBSCRIPTION, now, now))


def spans(changes: DataFrame, subscriptions: DataFrame, since: int = 0) -> list[Span]:
    """The rules in force after `since`."""
    found = in_force(changes, subscriptions).where(F.col("until") > since)
    rows = found.select("subscription_id", "key", F.greatest("since", F.lit(since)), "until").collect()
    return sorted((row[0], bytes(row[1]), row[2], row[3]) for row in rows)


def whose(lake: EventLake, now: int) -> set[str]:
    """All that anything is known of."""
    return {
        row[0]
        for kind in (SUBSCRIPTION, RULES)
        for row in known(lake, kind, now, now).select("subscription_id").collect()
    }


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
    live_on(lake, 3, 59)
    return lake


@pytest.fixture
def lived(begun: EventLake, tmp_path: Path) -> EventLake:
    return copied(begun, tmp_path)


def test_what_is_in_force_outlives_its_objects_and_what_has_ended_is_forgotten(aged: EventLake) -> None:
    assert rules(aged, day(60)) == [("kept", LASTING, day(1), FOREVER)]
    assert whose(aged, day(60)) == {"kept", "dead"}
    changes = known(aged, RULES, day(60), day(60)).collect()
    assert {(bytes(row["key"]), bytes(row["condition"])) for row in changes} == {(LASTING, b"alert")}


def test_a_dead_subscription_that_comes_back_still_has_its_rules(aged: EventLake, tmp_path: Path) -> None:
    lake = copied(aged, tmp_path)
    subscribe(lake, (day(61), "dead", "active", 1, 3))
    assert ("dead", LASTING, day(61), FOREVER) in rules(lake, day(62))


def test_what_ends_after_a_snapshot_ends_all_the_same(lived: EventLake) -> None:
    live_on(lived, 3, 27)
    subscribe(lived, (day(28), "dead", "removed", 1, 3))
    change(lived, (day(28), "removed", "kept", 2, 5, [LASTING]), (day(28), "added", "kept", 2, 6, [LATER]))
    assert ("kept", LASTING, day(1), day(28)) in rules(lived, day(28) + HOUR_MS)
    live_on(lived, 35, 67)
    assert rules(lived, day(67)) == [("kept", LATER, day(28), FOREVER)]
    assert whose(lived, day(67)) == {"kept"}


def test_a_second_run_writes_nothing(lived: EventLake) -> None:
    assert write_snapshots(lived, day(5)) == {SUBSCRIPTION: 3, RULES: 3, EventKind.LIMITS: 0}
    assert write_snapshots(lived, day(5) + HOUR_MS) == {}
    assert snapshot_days(lived.root, RULES) == [day_of(day(4))]


def test_what_was_removed_does_not_come_back_with_a_late_line_of_before(lived: EventLake) -> None:
    write_snapshots(lived, day(5))
    subscribe(lived, (day(1), "gone", "active", 1, 1), at=day(6))
    change(lived, (day(1), "added", "kept", 2, 3, [REMOVED]), at=day(6))
    write_snapshots(lived, day(8))
    assert rules(lived, day(9)) == [("kept", LASTING, day(1), FOREVER)]
    assert {
        row["status"] for row in known(lived, SUBSCRIPTION, day(9), day(9)).where("subscription_id = 'gone'").collect()
    } == {"removed"}
