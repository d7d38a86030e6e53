"""What was shown before, and what becomes known late: a statement of days or a month ago, outcomes that arrive later."""

from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from clarion.claims import LONGEST
from clarion.networks import STATEMENTS
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.compaction.compact import compact
from pipeline.generator.day import answers, generate
from pipeline.generator.plan import Faults, Plan
from pipeline.generator.traffic import AGES, EARLIER
from pipeline.lake.commits import read_manifest
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.snapshots import CLAIMS, day_of, read_snapshot, snapshot_days
from pipeline.period import DAY_MS, HOUR_MS, Period, instant_text
from pipeline.reconciliation.changed_days import changed_days
from pipeline.reconciliation.claims import CLAIM, write_claims
from pipeline.report.report_files import write_page, write_tables
from tests.pipeline.conftest import copied
from tests.pipeline.small_lake import SmallLake, Way, write_rows

START = 1_790_000_000_000 // DAY_MS * DAY_MS
TODAY = day_of(START)
SOON, LATER = TODAY.end + 2 * HOUR_MS, TODAY.end + 4 * DAY_MS
SAME = ("receipt", "subscription_id", "difference")
FAULTS = Faults(lost=500, repeated=2_000, outstayed=5_000)

type Difference = tuple[str, str, str]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """A day whose statements were in part shown before, and a tenth of whose outcomes arrive three days later."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("lateness")))
    generate(lake, Plan(START, statements=100, rules=120, floods=1, earlier=100, delayed=1_000, faults=FAULTS))
    compact(lake, Period(START - 50 * DAY_MS, SOON), SOON)
    return lake


@pytest.fixture(scope="module")
def claimed(lake: EventLake) -> EventLake:
    """With the claims of the days before, as the daily runs of a month leave them; these statements never expire."""
    queued = lake.read(EventKind.NOTIFICATION, Period(START - 40 * DAY_MS, START)).where("decision = 'queued'")
    claims = queued.withColumn("until", F.col("at") + 1000 * LONGEST).select(*CLAIM.names).persist()
    for age in AGES:
        day = day_of(START - age)
        write_claims(lake, day, claims.where(day.has(F.col("at"))), day.end)
    return lake


@pytest.fixture(scope="module")
def first(claimed: EventLake) -> set[Difference]:
    """The differences as they are found first, when the last outcomes are still on their way."""
    judge(claimed, SOON)
    return found(claimed)


def judge(lake: EventLake, now: int) -> None:
    words = ["--from", instant_text(TODAY.start), "--to", instant_text(TODAY.end), "--now", instant_text(now)]
    JOBS["reconcile"](lake, arguments.parse(["reconcile", "--lake", lake.root, *words]))
    judged = read_manifest(lake.root, differences_name(TODAY))
    write_page(lake.root, TODAY, write_tables(lake.root, TODAY, {}), "<p>", judged)


def found(lake: EventLake) -> set[Difference]:
    differences = lake.differences(TODAY)
    assert differences
    return rows(differences)


def rows(differences: DataFrame) -> set[Difference]:
    return {tuple(row) for row in differences.select(*SAME).collect()}


@pytest.fixture(scope="module")
def again(claimed: EventLake, first: set[Difference]) -> EventLake:
    """Once the last outcomes have arrived, and the day has been judged again; not to be written to."""
    compact(claimed, Period(START, LATER), LATER)
    assert changed_days(claimed, day_of(LATER - DAY_MS), LATER) == [TODAY]
    judge(claimed, LATER)
    return claimed


def test_earlier_statements_are_duplicates_just_after_midnight_after_days_and_weeks_but_not_after_a_month(
    lake: EventLake,
) -> None:
    made = lake.spark.read.parquet(lake.path("made/with_faults")).where(F.col("m") >= EARLIER)
    age = F.col("observed_at") - F.min("observed_at").over(Window.partitionBy("m", "sub"))
    shown_again = made.withColumn("age", age).where(F.col("age") > 0)
    decided = {(row["age"], row["decision"]) for row in shown_again.select("age", "decision").distinct().collect()}
    assert decided == {*((age, "duplicate") for age in AGES[:3]), (AGES[3], "queued")}


def test_as_long_as_outcomes_are_under_way_they_are_missing(again: EventLake, first: set[Difference]) -> None:
    missing = {receipt for receipt, _, word in first - rows(answers(again)) if word == "missing"}
    assert missing
    assert missing <= delayed(again)


def test_a_day_is_judged_again_by_what_arrives_late_and_by_claims_of_up_to_a_month(again: EventLake) -> None:
    planted = rows(answers(again))
    assert found(again) == planted
    assert {word for _, _, word in planted} == {"missing", "unexpected", "wrongly_dropped"}


def test_a_day_of_which_nothing_more_has_come_is_not_judged_again(again: EventLake) -> None:
    assert changed_days(again, day_of(LATER - DAY_MS), LATER + HOUR_MS) == []
    verdict = read_manifest(again.root, differences_name(TODAY))
    assert verdict
    assert verdict.sealed_at == LATER + HOUR_MS


def test_a_day_is_judged_again_if_a_run_died_before_it_had_written_its_page(again: EventLake, tmp_path: Path) -> None:
    lake = copied(again, tmp_path)
    assert changed_days(lake, day_of(LATER - DAY_MS), LATER + HOUR_MS) == []
    write_tables(lake.root, TODAY, {})
    assert changed_days(lake, day_of(LATER - DAY_MS), LATER + HOUR_MS) == [TODAY]


def test_a_day_is_judged_again_if_a_rule_of_then_becomes_known(again: EventLake, tmp_path: Path) -> None:
    lake = copied(again, tmp_path)
    rule = (START + HOUR_MS, STATEMENTS, "added", "s", 1, 1, [(b"key", None, None)])
    write_rows(lake, EventKind.RULES, [rule], lambda _: LATER + HOUR_MS)
    assert changed_days(lake, day_of(LATER - DAY_MS), LATER + 2 * HOUR_MS) == [TODAY]


def test_a_day_is_judged_again_if_something_becomes_known_that_was_queued_and_never_tried(
    again: EventLake, tmp_path: Path
) -> None:
    """Of an envelope that nobody wanted no difference says anything, and its bytes came in time."""
    lake, way = copied(again, tmp_path), Way(START + HOUR_MS)
    SmallLake(lake.root).commit(way.notification(), at=LATER + HOUR_MS)
    lake.view.refresh()
    assert changed_days(lake, day_of(LATER - DAY_MS), LATER + 2 * HOUR_MS) == [TODAY]


def test_each_day_has_its_claims_sorted_by_envelope_and_none_twice(again: EventLake) -> None:
    assert snapshot_days(again.root, CLAIMS) == [
        *sorted({day_of(START - age) for age in AGES}, key=lambda day: day.start),
        TODAY,
    ]
    snapshot = read_snapshot(again.root, CLAIMS, TODAY)
    assert snapshot
    tables = [parquet.read_table(again.path(file.path)) for file in snapshot.files]
    claims = [
        (row["envelope_id"], row["subscription_id"], row["receipt"]) for table in tables for row in table.to_pylist()
    ]
    assert claims == sorted(claims)
    assert len(claims) == len(set(claims)) > 0


def delayed(lake: EventLake) -> set[str]:
    """The receipts whose outcomes arrive days after the first judgement."""
    late = lake.read(EventKind.ENVELOPE, Period(TODAY.end + DAY_MS, LATER))
    return {row["receipt"] for row in late.select("receipt").collect()}
