from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.limiter import Limit
from pipeline.differences import Difference
from pipeline.generator.day import answers
from pipeline.lake import Lake
from pipeline.reconcile import with_caps

CAP = Limit(count=3, window=60_000, cooldown=0)
SAME = ("receipt", "subscription_id", "difference")


def test_a_reconciliation_finds_every_planted_fault_and_nothing_else(day: Lake, differences: DataFrame) -> None:
    found = {tuple(row) for row in differences.select(*SAME).collect()}
    planted = {tuple(row) for row in answers(day).select(*SAME).collect()}
    assert found == planted
    assert {difference for _, _, difference in found} == {str(difference) for difference in Difference}


def test_every_difference_comes_with_its_evidence(differences: DataFrame) -> None:
    needed = ("evidence", "statement_hash", "sender_pubkey", "client_id", "topic", "at")
    assert differences.where(F.greatest(*(F.col(name).isNull() for name in needed))).count() == 0


def test_no_difference_is_told_twice(differences: DataFrame) -> None:
    assert differences.groupBy(*SAME).count().where(F.col("count") > 1).count() == 0


def test_a_cap_is_borne_out_by_what_was_queued_within_a_window_around_it(spark: SparkSession) -> None:
    queued = [("busy", "queued", at) for at in (0, 20_000, 59_999, 60_001, 60_002, 60_003, 60_004, 60_005)]
    capped = [("busy", "capped", at) for at in (10_000, 120_500)] + [("calm", "capped", 10_000)]
    rows = [(name, word, at, at) for name, word, at in [*queued, *capped, ("calm", "queued", 10_000)]]
    found = spark.createDataFrame(rows, "subscription_id string, decision string, judged_at long, at long")
    told = {
        tuple(row)
        for row in with_caps(found, CAP)
        .select("subscription_id", "decision", "judged_at", "full", "overfull")
        .collect()
    }
    assert {(name, at) for name, word, at, full, _ in told if word == "capped" and full} == {("busy", 10_000)}
    assert {at for _, _, at, _, overfull in told if overfull} == {60_005}
    assert len(told) == len(rows)
