"""An object of the lake expires by its age; what is in force has to outlive that, and nothing else may."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.columns import UNREADABLE, EventKind
from pipeline.compaction.completeness import incomplete_hours
from pipeline.compaction.unreadable import DROPPED, read_again_or_drop
from pipeline.in_force.rules import in_force, rule_changes
from pipeline.in_force.states import MARGIN_MS, STATES, last_rules, limit_history, states_since, write_snapshots
from pipeline.lake.commits import data_folder, manifest_path, new_commit, read_manifest, update
from pipeline.lake.dedup import latest_subscriptions
from pipeline.lake.event_lake import EventLake
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.lake.snapshots import day_of, prune, read_snapshot, snapshot_days, snapshot_name
from pipeline.period import DAY_MS, FOREVER, HOUR_MS, SNAPSHOT_DAYS, Period, hour_path
from tests.pipeline.conftest import copied
from tests.pipeline.small_lake import PHONE, LakeRow, add_files, ruled, write_rows

KEEP_DAYS = 20
HALF_DAY = 12 * HOUR_MS
NETWORK = "statements"
START = 1_790_000_000_000 // DAY_MS * DAY_MS
CLIENT = b"c" * 32
LASTING, REPLACED, REMOVED, LATER = (bytes([number]) * 32 for number in range(4))
RULES, SUBSCRIPTION = EventKind.RULES, EventKind.SUBSCRIPTION

type Change = tuple[int, str, str, int, int, Sequence[bytes]]
type State = tuple[int, str, str, int, int]
type Span = tuple[str, bytes, int, int]


def day(number: int) -> int:
    return START + number * DAY_MS


def arrive(lake: EventLake, kind: EventKind, rows: Sequence[LakeRow], at: int | None = None) -> None:
    """Each line in the hour `at`, or of its own time; the time comes first in every kind."""
    write_rows(lake, kind, rows, lambda row: row[0] if at is None else at)


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
    """The days of `lake` from `first` to `last`, with a run every sixteenth."""
    for number in range(first, last + 1, 16):
        write_snapshots(lake, day(number) + 2 * HOUR_MS)
        expire(lake, day(number))


def rules(lake: EventLake, now: int) -> list[Span]:
    """Those in force on the day before."""
    found = spans(states_since(lake, RULES, now, now), states_since(lake, SUBSCRIPTION, now, now))
    return [span for span in found if span[3] > now - DAY_MS]


def spans(changes: DataFrame, subscriptions: DataFrame) -> list[Span]:
    rows = in_force(changes, subscriptions).select("subscription_id", "key", "since", "until").collect()
    return sorted((row[0], bytes(row[1]), row[2], row[3]) for row in rows)


def whose(lake: EventLake, now: int) -> set[str]:
    """All that anything is known of."""
    return {
        row[0]
        for kind in (SUBSCRIPTION, RULES)
        for row in states_since(lake, kind, now, now).select("subscription_id").collect()
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
    live_on(lake, 3, 35)
    expire(lake, day(50))
    return lake


@pytest.fixture
def lived(begun: EventLake, tmp_path: Path) -> EventLake:
    return copied(begun, tmp_path)


def test_what_is_in_force_outlives_its_objects_and_what_has_ended_is_forgotten(aged: EventLake) -> None:
    assert rules(aged, day(51)) == [("kept", LASTING, day(1), FOREVER)]
    assert whose(aged, day(51)) == {"kept", "dead"}
    changes = states_since(aged, RULES, day(51), day(51)).collect()
    assert {(bytes(row["key"]), bytes(row["condition"])) for row in changes} == {(LASTING, b"alert")}


def test_a_dead_subscription_that_comes_back_still_has_its_rules(aged: EventLake, tmp_path: Path) -> None:
    lake = copied(aged, tmp_path)
    subscribe(lake, (day(51), "dead", "active", 1, 3))
    assert ("dead", LASTING, day(51), FOREVER) in rules(lake, day(52))


def test_what_ends_after_a_snapshot_ends_all_the_same(lived: EventLake) -> None:
    live_on(lived, 3, 19)
    subscribe(lived, (day(28), "dead", "removed", 1, 3))
    change(lived, (day(28), "removed", "kept", 2, 5, [LASTING]), (day(28), "added", "kept", 2, 6, [LATER]))
    assert ("kept", LASTING, day(1), day(28)) in rules(lived, day(28) + HOUR_MS)
    live_on(lived, 35, 51)
    assert rules(lived, day(52)) == [("kept", LATER, day(28), FOREVER)]
    assert whose(lived, day(52)) == {"kept"}


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
    subscriptions = states_since(lived, SUBSCRIPTION, day(9), day(9))
    assert {row["subscription_id"]: row["status"] for row in latest_subscriptions(subscriptions).collect()} == {
        "kept": "active", "dead": "invalid", "gone": "removed",
    }  # fmt: skip


def test_a_late_file_of_an_hour_that_a_snapshot_has_read_is_read_beside_it(lived: EventLake) -> None:
    write_snapshots(lived, day(4))
    change(lived, (day(3), "added", "kept", 2, 5, [LATER]))
    assert ("kept", LATER, day(3), FOREVER) in rules(lived, day(4) + 2 * HOUR_MS)
    hour = hour_path(day(3))
    update(lived.root, hour, lambda known: replace(known, sealed_at=day(4) - MARGIN_MS))
    lived.view.refresh()
    assert ("kept", LATER, day(3), FOREVER) not in rules(lived, day(4) + 2 * HOUR_MS)


def test_whoever_reads_a_snapshot_finds_what_a_reader_of_everything_finds(lake: EventLake) -> None:
    """A made-up history of changes, of which some arrive up to two days late."""
    dice = Random(1)
    keys, people = [bytes([number]) * 32 for number in range(6)], [f"s{number}" for number in range(8)]
    generations = dict.fromkeys(people, 1)
    states: list[LakeRow] = [(day(0), NETWORK, who, CLIENT, "fcm", "active", None, 1, 0) for who in people]
    lines: list[LakeRow] = []
    for revision in range(1, 150):
        at, who = day(0) + revision * 2 * HOUR_MS, dice.choice(people)
        if dice.random() < 0.2:
            generations[who] += 1
            lines.append((at - 1, NETWORK, "added", who, generations[who], revision, [(dice.choice(keys), None, None)]))
            states.append(
                (
                    at,
                    NETWORK,
                    who,
                    CLIENT,
                    "fcm",
                    dice.choice(["active", "active", "invalid"]),
                    None,
                    generations[who],
                    revision,
                )
            )
        else:
            changed = (dice.choice(["added", "removed"]), who, generations[who], revision)
            lines.append((at, NETWORK, *changed, [(dice.choice(keys), None, None)]))
    for kind, rows in ((SUBSCRIPTION, states), (RULES, lines)):
        write_rows(lake, kind, rows, lambda row: (row[0] // HALF_DAY + 1) * HALF_DAY + dice.randrange(3) * 17 * HOUR_MS)
    everything = spans(rule_changes(lake.read(RULES)), lake.read(SUBSCRIPTION))
    for number in (4, 9):
        write_snapshots(lake, day(number))
        since = day(number) + 2 * HOUR_MS
        assert later(
            spans(states_since(lake, RULES, since, day(20)), states_since(lake, SUBSCRIPTION, since, day(20))), since
        ) == later(everything, since)


def later(found: list[Span], since: int) -> list[Span]:
    """What of the spans is after `since`."""
    return [(who, key, max(begin, since), until) for who, key, begin, until in found if until > since]


def test_the_files_of_a_snapshot_are_sorted_by_key(lake: EventLake) -> None:
    changes = lake.spark.range(5_000).select(
        F.lit(1).cast("long").alias("at"), F.lit("added").alias("change"), F.col("id").cast("string").alias("subscription_id"),
        *(F.lit(1).cast("long").alias(name) for name in ("generation", "revision")),
        F.unhex(F.sha2(F.col("id").cast("string"), 256)).alias("key"),
        *(F.lit(None).cast("binary").alias(name) for name in ("condition", "condition_digest")),
    )  # fmt: skip
    nobody = lake.spark.createDataFrame([], STATES[SUBSCRIPTION])
    lake.write_day(RULES, day_of(START), last_rules(changes, nobody, 0), START)
    snapshot = read_snapshot(lake.root, RULES, day_of(START))
    assert snapshot
    assert len(snapshot.files) > 1
    keys = [key for file in snapshot.files for key in parquet.read_table(lake.path(file.path))["key"].to_pylist()]
    assert keys == sorted(keys)
    assert len(keys) == 5_000


def test_a_month_keeps_its_first_snapshot_and_no_others_once_they_are_old(lived: EventLake) -> None:
    days = [day_of(day(number)) for number in range(80)]
    for each in days:
        update(lived.root, snapshot_name(RULES, each), lambda known: known)
    prune(lived.root, RULES, day(80), monthly=True)
    kept = snapshot_days(lived.root, RULES)
    old = [each for each in days if each.end < day(80) - SNAPSHOT_DAYS * DAY_MS]
    assert [each for each in kept if each in old] == [each for each in old if hour_path(each.start)[8:10] == "01"]
    assert kept[-SNAPSHOT_DAYS:] == days[-SNAPSHOT_DAYS:]


def test_what_a_killed_writer_left_is_no_snapshot(tmp_path: Path) -> None:
    name = snapshot_name(RULES, day_of(START))
    update(str(tmp_path), name, lambda known: known)
    written = tmp_path / manifest_path(name)
    written.with_name(f".{written.name}.0123abcd").write_text("")
    assert snapshot_days(str(tmp_path), RULES) == [day_of(START)]


def test_a_snapshot_that_somebody_has_moved_aside_is_none(tmp_path: Path) -> None:
    root = str(tmp_path)
    for number in (0, 1):
        update(root, snapshot_name(RULES, day_of(day(number))), lambda known: known)
    moved = tmp_path / manifest_path(snapshot_name(RULES, day_of(day(1))))
    moved.rename(moved.with_name(f"{moved.name}.damaged"))
    moved.with_name("day=2026-13-45.json").write_text("{}")
    assert snapshot_days(root, RULES) == [day_of(day(0))]


def unreadable(lake: EventLake, hour: str, *lines: bytes) -> None:
    """As `compact` keeps lines of an hour that it can't read."""
    rows = pa.RecordBatch.from_pydict({"value": [line.decode() for line in lines]})
    file = write_parquet(lake.root, data_folder(UNREADABLE, hour, new_commit()), [rows])
    add_files(lake.root, hour, {UNREADABLE: (file,)})
    lake.view.refresh()


def unread(lake: EventLake, number: int) -> set[str]:
    """The hours that the day's snapshot of rules has not in full."""
    snapshot = read_snapshot(lake.root, RULES, day_of(day(number)))
    return set(snapshot.unread) if snapshot else set()


def test_a_rule_that_nobody_could_read_is_carried_by_each_snapshot_until_somebody_can(lake: EventLake) -> None:
    hour, its_hour = hour_path(day(0)), Period(day(0), day(0) + HOUR_MS)
    subscribe(lake, (day(0), str(PHONE), "active", 1, 1))
    unreadable(lake, hour, ruled(LASTING, at=day(0) + 1).to_line())
    write_snapshots(lake, day(1) + 2 * HOUR_MS)
    write_snapshots(lake, day(9) + 2 * HOUR_MS)
    assert (unread(lake, 8), rules(lake, day(10))) == ({hour}, [])
    (problem,) = incomplete_hours(lake.view, day_of(day(20)), day(21), provisional=True)[:1]
    assert str(problem) == f"{hour}: 1 lines can't be read, and may say what was in force"
    assert read_again_or_drop(lake, its_hour, day(10), drop=False) == {RULES: 1}
    assert rules(lake, day(10)) == [(str(PHONE), LASTING, day(0) + 1, FOREVER)]
    write_snapshots(lake, day(11) + 2 * HOUR_MS)
    assert (unread(lake, 10), rules(lake, day(12))) == (set(), [(str(PHONE), LASTING, day(0) + 1, FOREVER)])


def test_what_was_removed_long_ago_is_not_revived_by_a_line_that_is_read_at_last(lake: EventLake) -> None:
    """Neither by one that was never read, nor by those beside it in its hour."""
    hour = hour_path(day(0))
    subscribe(lake, (day(0), str(PHONE), "active", 1, 1), (day(0), "gone", "active", 1, 1))
    change(lake, (day(0) + 1, "added", str(PHONE), 1, 2, [REMOVED]), (day(0) + 1, "added", "gone", 1, 1, [LASTING]))
    unreadable(lake, hour, ruled(LATER, at=day(0) + 1).to_line(), b"none")
    change(lake, (day(1), "removed", str(PHONE), 1, 3, [REMOVED, LATER]))
    subscribe(lake, (day(1), "gone", "removed", 1, 2))
    live_on(lake, 2, 19)
    assert (unread(lake, 17), rules(lake, day(19))) == ({hour}, [])
    read_again_or_drop(lake, Period(day(0), day(0) + HOUR_MS), day(19), drop=False)
    assert rules(lake, day(19)) == []
    write_snapshots(lake, day(20) + 2 * HOUR_MS)
    assert (unread(lake, 19), rules(lake, day(21))) == ({hour}, [])
    read_again_or_drop(lake, Period(day(0), day(0) + HOUR_MS), day(21), drop=True)
    write_snapshots(lake, day(36) + 2 * HOUR_MS)
    assert (unread(lake, 35), whose(lake, day(37))) == (set(), {str(PHONE)})


def test_lines_that_stay_unreadable_are_kept_until_they_are_dropped(lake: EventLake) -> None:
    hour, first = hour_path(day(0)), Period(day(0), day(1))
    unreadable(lake, hour, b"none")
    before = read_manifest(lake.root, hour)
    assert read_again_or_drop(lake, first, day(1), drop=False) == {UNREADABLE: 1}
    assert read_manifest(lake.root, hour) == before
    assert read_again_or_drop(lake, first, day(1), drop=True) == {DROPPED: 1}
    after = read_manifest(lake.root, hour)
    assert before
    assert after
    assert (after.files, after.arrived) == ((), before.arrived)


def test_a_snapshot_whose_removal_was_stopped_is_removed_by_the_next_run(tmp_path: Path) -> None:
    """It keeps its manifest until its files are gone: nothing else says which they are."""
    name, folder = snapshot_name(RULES, day_of(START)), tmp_path / "held"
    folder.mkdir()
    update(str(tmp_path), name, lambda known: replace(known, kinds={name: (DataFile("held", 1, 1, ""),)}))
    with pytest.raises(OSError, match="held"):
        prune(str(tmp_path), RULES, day(80), monthly=False)
    assert snapshot_days(str(tmp_path), RULES) == [day_of(START)]
    folder.rmdir()
    prune(str(tmp_path), RULES, day(80), monthly=False)
    assert snapshot_days(str(tmp_path), RULES) == []


def test_the_last_limits_outlive_their_objects(lake: EventLake) -> None:
    """No worker has started since, so nothing has loaded them again."""
    arrive(lake, EventKind.LIMITS, [(day(0), NETWORK, 30, 60_000, 120_000, 300, 60_000)])
    arrive(lake, EventKind.LIMITS, [(day(1), NETWORK, 30, 60_000, 300_000, 300, 60_000)])
    live_on(lake, 3, 19)
    expire(lake, day(25))
    limit = limit_history(lake.view, day(25), day(26)).at(NETWORK, day(25)).limit
    assert limit
    assert limit.cooldown == 300_000
