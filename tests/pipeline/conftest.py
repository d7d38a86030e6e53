"""One Spark session and one made-up day for all tests of the pipeline."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from clarion.clock import now_ms
from pipeline.columns import EventKind
from pipeline.compaction.compact import compact
from pipeline.generator.day import generate
from pipeline.generator.plan import SOME_OF_EACH, Plan
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.period import HOUR_MS, Period
from pipeline.reconciliation.reconcile import Findings, reconcile
from pipeline.spark.session import session
from pipeline.terms import Terms

DAY = 24 * HOUR_MS
START = 1_790_000_000_000 // HOUR_MS * HOUR_MS
NOW = START + DAY

ADAPTIVE = "spark.sql.adaptive.enabled"
# Frames of a few rows: what counts is how fast a plan is made, not how fast it runs.
QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # It plans, and describes the plan, anew after every stage: see `adaptive`.
    ADAPTIVE: "false",
    # Each execution begins with a description of its plan.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "1",
    # A plan leaves much garbage and keeps little: with more space for it, it is collected a quarter as often.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xmn512m",
    # What Spark keeps of past queries for its pages fills the heap with their plans, until it does nothing but collect.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.driver.memory": "4g",
}


def pytest_configure(config: pytest.Config) -> None:
    # Py4J leaves the closing of its connections to the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("tests", cores=2, shuffles=2, conf=QUICK)
    yield spark
    spark.stop()


@pytest.fixture
def adaptive(spark: SparkSession) -> Iterator[None]:
    """With adaptive execution, as jobs run elsewhere."""
    spark.conf.set(ADAPTIVE, value=True)
    yield
    spark.conf.set(ADAPTIVE, value=False)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> EventLake:
    """An empty one."""
    return EventLake(spark, str(tmp_path / "lake"))


def copied(lake: EventLake, folder: Path) -> EventLake:
    """One to write to, where making it took long."""
    return EventLake(lake.spark, shutil.copytree(lake.root, str(folder / "lake")))


@pytest.fixture(scope="session")
def plan() -> Plan:
    return Plan(START, statements=800, rules=500, messages=600, hours=2, faults=SOME_OF_EACH)


@pytest.fixture(scope="session")
def day(spark: SparkSession, plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """A day with faults, compacted; not to be written to."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("day")))
    generate(lake, plan)
    compact(lake, Period(START - 3 * DAY, NOW), now_ms())
    return lake


@pytest.fixture(scope="session")
def secret(day: EventLake) -> DataFrame:
    """`subscription_id` of those whose conditions the lake has a digest of."""
    rules = day.read(EventKind.RULES).select("subscription_id", F.inline("rules"))
    return rules.where(F.col("condition_digest").isNotNull()).select("subscription_id").distinct()


@pytest.fixture(scope="session")
def findings(day: EventLake, plan: Plan) -> Findings:
    return reconcile(day, plan.period, NOW, Terms())


@pytest.fixture(scope="session")
def differences(day: EventLake, plan: Plan, findings: Findings) -> DataFrame:
    """As the job leaves them in the lake."""
    day.write_named(differences_name(plan.period), findings.differences)
    found = day.differences(plan.period)
    assert found
    return found
