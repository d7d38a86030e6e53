"""What the plan of a reconciliation does, and how often: each file is read, and each row moved, for a price."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame

from pipeline.generator.plan import Plan
from pipeline.lake import EventLake
from pipeline.reconcile import reconcile
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
    """What is kept is persisted here, so that the plan still shows where it comes from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.reconcile.kept", DataFrame.persist)
        findings = reconcile(day, plan.period, NOW, Terms())
    return Counter(nodes(findings.differences._jdf.queryExecution().executedPlan(), set()))


def test_envelopes_are_verified_and_limits_replayed_once(shape: Counter[str]) -> None:
    assert shape["MapInArrowExec"] == 2


def test_each_kind_is_read_once_but_for_the_notifications_that_hold_claims(shape: Counter[str]) -> None:
    assert shape["FileSourceScanExec"] == 7


def test_rows_are_moved_no_more_often(shape: Counter[str]) -> None:
    assert shape["ShuffleExchangeExec"] <= 20
