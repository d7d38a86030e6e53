"""How Spark's settings are fitted to the size of what it reads."""

import pytest
from pyspark.sql import SparkSession

from pipeline.generator.plan import Plan
from pipeline.lake import EventLake
from pipeline.period import EVER
from pipeline.reconcile import size_of
from pipeline.schemas import EventKind
from pipeline.session import FEW_BYTES, WITH_FEW, fitted
from tests.pipeline.conftest import ADAPTIVE, NOW


def known(spark: SparkSession) -> dict[str, str | None]:
    return {name: spark.conf.get(name) for name in WITH_FEW}


@pytest.mark.usefixtures("adaptive")
def test_a_plan_for_few_bytes_is_neither_compiled_nor_planned_anew(spark: SparkSession) -> None:
    before = known(spark)
    with fitted(spark, FEW_BYTES):
        assert known(spark) == WITH_FEW
    assert known(spark) == before
    assert before[ADAPTIVE] == "true"


@pytest.mark.usefixtures("adaptive")
def test_a_plan_for_more_bytes_runs_as_the_session_does(spark: SparkSession) -> None:
    before = known(spark)
    with fitted(spark, FEW_BYTES + 1):
        assert known(spark) == before


def test_the_settings_are_put_back_after_an_error(spark: SparkSession) -> None:
    before = known(spark)
    with pytest.raises(ValueError, match="broken"), fitted(spark, 0):
        raise ValueError("broken")
    assert known(spark) == before


def test_the_size_of_a_reconciliation_is_that_of_all_kinds_it_reads(day: EventLake, plan: Plan) -> None:
    found = day.view.manifests(EVER)
    assert size_of(day.view, plan.period, NOW) == sum(
        file.bytes for kind in EventKind for each in found for file in each.kinds.get(kind, ())
    )
