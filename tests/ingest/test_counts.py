"""What ingest records of itself, and what it only logs."""

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from clarion.metrics import Metric
from clarion.networks import STATEMENTS
from ingest.counts import Gauges, OfNetwork, report
from tests.ingest.conftest import MakeSettings, MakeStatement
from tests.ledger.whole_bill import COUNTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.ingest.conftest import FakeNode, ReceivedQueue, Run

OTHER = b"\x71" * 32


def reported(capsys: pytest.CaptureFixture[str], gauges: Gauges) -> list[tuple[dict[str, Any], set[str]]]:
    """Each line, and the metrics that CloudWatch makes of it."""
    report("blue", Counter(), gauges)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [(line, {each["Name"] for each in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]}) for line in lines]


def test_what_only_explains_the_rest_is_logged_and_no_metric(capsys: pytest.CaptureFixture[str]) -> None:
    [(line, metrics)] = reported(capsys, {Metric.SHARDS_OWNED: 256, Metric.KNOWN_KEYS: 7, Metric.ENVELOPES_HELD: 0})
    assert metrics == {"shards_owned"}
    assert (line["known_keys"], line["envelopes_held"]) == (7, 0)


def test_a_lag_that_any_envelope_has_is_logged_and_no_metric(capsys: pytest.CaptureFixture[str]) -> None:
    [(line, metrics)] = reported(capsys, {Metric.RULES_BEHIND: 2_500, Metric.INGEST_LAG: 1_040})
    assert metrics == {"rules_behind"}
    assert line["ingest_lag"] == 1_040
    [(_, metrics)] = reported(capsys, {Metric.RULES_BEHIND: 2_500, Metric.INGEST_LAG: 6_000})
    assert metrics == {"rules_behind", "ingest_lag"}


def test_that_no_node_of_a_network_is_connected_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    [(_, metrics)] = reported(capsys, {OfNetwork(Metric.NODES_CONNECTED, STATEMENTS): 0})
    assert metrics == {"nodes_connected"}


async def test_the_bill_knows_all_that_a_task_counts_of_what_two_nodes_show(
    node: "FakeNode",
    make_node: "Callable[..., FakeNode]",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    make_statement: MakeStatement,
    rule: None,
) -> None:
    async with make_node() as second, running(make_settings(node, second)) as task:
        for each in (node, second):
            await each.subscribed()
        for each in (node, second):
            each.show(make_statement(1), make_statement(2, topics=(OTHER,)))
        await received.holds(1)
        counted = set(task.counts)
        while not counted >= set(COUNTED):
            await asyncio.sleep(0.01)
            counted |= set(task.counts)
        assert counted == set(COUNTED)
