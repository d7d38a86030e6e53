"""What the plan of a reconciliation does, and how often: each file is read, and each row moved, for a price."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.reconcile import Findings


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
def shape(findings: Findings) -> Counter[str]:
    return Counter(nodes(findings.differences._jdf.queryExecution().executedPlan(), set()))


def test_envelopes_are_verified_and_limits_replayed_once(shape: Counter[str]) -> None:
    assert shape["MapInArrowExec"] == 2
