import json
from typing import Any

import pytest
from aws_lambda_powertools.metrics import EphemeralMetrics
from aws_lambda_powertools.metrics import MetricUnit as PowertoolsUnit

from clarion.embedded_metrics import EmbeddedMetrics, MetricUnit

DIMENSIONS = {"service": "match", "stage": "blue"}
AT = 1_800_000_000_000


def lines_of(metrics: EmbeddedMetrics) -> list[dict[str, Any]]:
    return [json.loads(line) for line in metrics.lines(AT)]


def test_a_line_says_what_powertools_says() -> None:
    ours = EmbeddedMetrics("Clarion", DIMENSIONS)
    theirs = EphemeralMetrics(namespace="Clarion", default_dimensions=DIMENSIONS)
    for name, unit, value in [("latency", "Milliseconds", 7), ("latency", "Milliseconds", 9), ("decided", "Count", 2)]:
        ours.add(name, MetricUnit(unit), value)
        theirs.add_metric(name, PowertoolsUnit(unit), value)
    ours.log("known_keys", 3)
    theirs.add_metadata("known_keys", 3)

    expected: dict[str, Any] = dict(theirs.serialize_metric_set())
    expected["_aws"] = {**expected["_aws"], "Timestamp": AT}
    assert lines_of(ours) == [expected]


def test_more_values_than_a_line_may_have_are_in_further_lines() -> None:
    metrics = EmbeddedMetrics("Clarion", DIMENSIONS)
    for value in range(201):
        metrics.add("latency", MetricUnit.MILLISECONDS, value)
    metrics.add("decided", MetricUnit.COUNT, 1)

    first, second, third = lines_of(metrics)

    assert [*first["latency"], *second["latency"], *third["latency"]] == list(range(201))
    assert [first["decided"], "decided" in second, "decided" in third] == [[1], False, False]


def test_what_was_printed_is_forgotten_and_nothing_is_printed_without_a_metric(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = EmbeddedMetrics("Clarion", DIMENSIONS)
    metrics.add("decided", MetricUnit.COUNT, 1)
    metrics.flush()
    metrics.log("known_keys", 3)
    metrics.flush()

    assert len(capsys.readouterr().out.splitlines()) == 1
