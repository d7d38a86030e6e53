from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.decisions import NotificationDecision
from clarion.events import EnvelopeObserved
from clarion.limiter import Limit
from clarion.networks import STATEMENTS, XMTP
from pipeline.__main__ import main
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.findings import Difference
from pipeline.generator.day import answers
from pipeline.in_force.limits import LimitHistory, LimitSpan
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, FOREVER, HOUR_MS, Period
from pipeline.reconciliation.caps import with_caps
from pipeline.reconciliation.reconcile import Findings, reconcile
from pipeline.terms import Terms
from tests.pipeline.small_lake import SmallLake, Way, ruled, subscribed

START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
FOLLOWED = STATEMENTS, XMTP
"""The networks that show envelopes."""
CAP = Limit(count=3, window=60_000, cooldown=0)
SAME = ("receipt", "subscription_id", "difference")


def test_a_reconciliation_finds_every_planted_fault_and_nothing_else(day: EventLake, differences: DataFrame) -> None:
    found = {tuple(row) for row in differences.select(*SAME).collect()}
    planted = {tuple(row) for row in answers(day).select(*SAME).collect()}
    assert found == planted
    assert {difference for _, _, difference in found} == {str(difference) for difference in Difference}


def test_faults_of_every_kind_are_found_in_both_networks(differences: DataFrame) -> None:
    found = {(row["network"], row["difference"]) for row in differences.select("network", "difference").collect()}
    assert found == {(name, str(difference)) for name in FOLLOWED for difference in Difference}


def test_what_was_lost_before_its_decision_is_found_where_conditions_are_secret(
    differences: DataFrame, secret: DataFrame
) -> None:
    found = differences.join(secret, on="subscription_id", how="leftsemi").select("evidence").distinct()
    assert {row["evidence"] for row in found.collect()} >= {
        "never decided", "matched, but no notification decided", "own_message or not_pushable",
    }  # fmt: skip


def test_all_is_judged_but_for_what_a_secret_decides(day: EventLake, findings: Findings, secret: DataFrame) -> None:
    decided = day.read(EventKind.NOTIFICATION).join(secret, on="subscription_id", how="leftsemi")
    unjudged = findings.unjudged
    assert unjudged.join(secret, on="subscription_id", how="leftanti").count() == 0
    words = decided.join(unjudged, on=["receipt", "subscription_id"], how="leftsemi").select("decision").distinct()
    assert {row["decision"] for row in words.collect()} >= {"own_message", "queued", "duplicate"}
    judged = decided.join(unjudged, on=["receipt", "subscription_id"], how="leftanti").select("decision").distinct()
    assert {row["decision"] for row in judged.collect()} == {"own_message", "not_pushable", "queued"}


def test_every_difference_comes_with_its_evidence(differences: DataFrame) -> None:
    needed = ("evidence", "envelope_id", "sender", "client_id", "key", "at")
    assert differences.where(F.greatest(*(F.col(name).isNull() for name in needed))).count() == 0


def test_a_period_of_which_nothing_was_observed_or_decided_is_judged_without_a_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    SmallLake(tmp_path).commit(subscribed(), ruled(Way().key))
    spark.sparkContext.setJobGroup("quiet", "")
    found = reconcile(EventLake(spark, str(tmp_path)), Period(START, START + HOUR_MS), START + DAY_MS, Terms())
    rows = [found.differences.collect(), found.unjudged.collect(), found.claims.collect(), found.unread.collect()]
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup("quiet")
    spark.sparkContext.setJobGroup("", "")
    assert (rows, list(jobs)) == ([[]] * 4, [])


def test_what_nobody_should_have_got_is_not_missing_as_well(spark: SparkSession, tmp_path: Path) -> None:
    """It was queued without a rule, and never tried: a replay would push it."""
    made, way = SmallLake(tmp_path), Way()
    made.commit(way.observed(), way.envelope(), way.notification())
    lake = EventLake(spark, made.root)
    found = reconcile(lake, Period(way.began, way.began + HOUR_MS), way.began + DAY_MS, Terms()).differences
    assert [(row["receipt"], row["difference"]) for row in found.collect()] == [(str(way.receipt), "unexpected")]


def test_what_was_decided_and_never_recorded_as_observed_is_missing_unless_it_was_observed_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of two whose first line was lost, ingest has sent one again; a third is large, and its bytes are not read."""
    made, period = SmallLake(tmp_path), Period(Way().began, Way().began + HOUR_MS)
    hidden, sent, large = (Way(number=number) for number in (1, 2, 3))
    again = Way(number=4, raw=sent.raw)
    elsewhere = EnvelopeObserved(
        network=STATEMENTS, at=large.at, receipt=large.receipt, observed_at=large.began, location="large"
    )
    made.commit(subscribed(), ruled(hidden.key))
    made.commit(*hidden.delivered()[1:], *sent.delivered()[1:], elsewhere, large.envelope())
    made.commit(again.observed(), again.envelope(), again.notification(NotificationDecision.DUPLICATE))
    found = reconcile(EventLake(spark, made.root), period, period.end + DAY_MS, Terms()).differences.collect()
    assert [(row["receipt"], row["subscription_id"], row["difference"], row["evidence"]) for row in found] == [
        (str(hidden.receipt), None, "missing", "matched, but its observation is not in the lake")
    ]


def test_no_difference_is_found_twice(differences: DataFrame) -> None:
    assert differences.groupBy(*SAME).count().where(F.col("count") > 1).count() == 0


@pytest.mark.parametrize("job", sorted(JOBS.keys() - {"generate"}))
def test_a_lake_that_does_not_exist_is_named_and_not_made(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = tmp_path / "misspelt"
    assert main([job, "--lake", str(nowhere)]) == 1
    assert f"there is no lake at {nowhere}" in capsys.readouterr().err
    assert not nowhere.exists()


def test_a_cap_is_borne_out_by_what_was_queued_within_a_window_around_it(spark: SparkSession) -> None:
    queued = [("busy", "queued", at) for at in (0, 20_000, 59_999, 60_001, 60_002, 60_003, 60_004, 60_005)]
    capped = [("busy", "capped", at) for at in (10_000, 120_500)] + [("calm", "capped", 10_000)]
    decided = [*queued, *capped, ("calm", "queued", 10_000)]
    rows = [(f"r{number}", name, "statements", word, at, at) for number, (name, word, at) in enumerate(decided)]
    found = spark.createDataFrame(
        rows, "receipt string, subscription_id string, network string, found string, judged_at long, at long"
    )
    marked = {
        tuple(row)
        for row in with_caps(found, LimitHistory({"statements": [LimitSpan(0, FOREVER, None, CAP)]}))
        .select("subscription_id", "found", "judged_at", "full", "overfull")
        .collect()
    }
    assert {(name, at) for name, word, at, full, _ in marked if word == "capped" and full} == {("busy", 10_000)}
    assert {at for _, _, at, _, overfull in marked if overfull} == {60_005}
    assert len(marked) == len(rows)
