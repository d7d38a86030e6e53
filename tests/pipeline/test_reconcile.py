from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.differences import Difference
from pipeline.generator.day import answers
from pipeline.lake import Lake

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
