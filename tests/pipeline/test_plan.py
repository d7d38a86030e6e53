"""What the plan of a reconciliation does, and how often: each file is read, and each row moved, for a price."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame

from pipeline.generator.plan import Plan
from pipeline.lake.event_lake import EventLake
from pipeline.reconciliation.reconcile import reconcile
from pipeline.spark.frames import checkpoint
from pipeline.terms import Terms
from tests.pipeline.conftest import NOW


def nodes(plan: Any, seen: set[int]) -> Iterator[str]:
    """The class of each node, with those of the frames that are persisted: each of these counts once."""
    name = plan.getClass().getSimpleName()
    yield name
    if name == "InMemoryTableScanExec":
        kept = plan.relation().cachedPlan()
        if kept.id() not in seen:
            seen.add(kept.id())
            yield from nodes(kept, seen)
    children = plan.children()
    for number in range(children.size()):
        yield from nodes(children.apply(number), seen)


@pytest.fixture(scope="module")
def shape(day: EventLake, plan: Plan) -> Counter[str]:
    """Of the plans of all that is kept, each of which begins with what was kept before, and of the differences."""
    shape, seen = Counter[str](), set[int]()

    def counted(rows: DataFrame) -> DataFrame:
        shape.update(nodes(rows._jdf.queryExecution().executedPlan(), seen))
        return checkpoint(rows)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("reconciliation.compare", "reconciliation.reconcile", "spark.frames"):
            patch.setattr(f"pipeline.{module}.checkpoint", counted)
        findings = reconcile(day, plan.period, NOW, Terms())
    shape.update(nodes(findings.differences._jdf.queryExecution().executedPlan(), seen))
    return shape


def test_envelopes_are_verified_and_limits_replayed_once(shape: Counter[str]) -> None:
    assert shape["MapInArrowExec"] == 2


def test_kinds_are_read_no_more_often(shape: Counter[str]) -> None:
    """For sums, a few columns of each; then what is in doubt; and of a day with a flood, what its clients got.

    Two are of receipts alone: whether what was decided without a trace of its envelope has one on another day.
    """
    assert shape["FileSourceScanExec"] <= 17


def test_rows_are_moved_no_more_often(shape: Counter[str]) -> None:
    """Most of them are those few that are compared. Four are of the latest decision on each receipt, and of one's own.

    One is of rules that were in force without a gap.
    """
    assert shape["ShuffleExchangeExec"] <= 53
