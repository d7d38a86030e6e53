import json

import pytest
from aws_lambda_powertools.metrics import MetricUnit

from clarion.metrics import NAMESPACE, metrics_of


def test_every_line_names_the_component_and_its_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = metrics_of("match", "blue")
    for _ in range(150):  # more of one metric than fit into one line
        metrics.add_metric("latency", MetricUnit.Milliseconds, 1)
    metrics.flush_metrics()
    metrics.add_metric("shards_owned", MetricUnit.Count, 1)
    metrics.flush_metrics()

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 3
    for line in lines:
        (block,) = line["_aws"]["CloudWatchMetrics"]
        assert (block["Namespace"], *map(sorted, block["Dimensions"])) == (NAMESPACE, ["service", "stage"])
        assert (line["service"], line["stage"]) == ("match", "blue")


def test_components_in_one_process_do_not_count_for_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    match, dispatch = metrics_of("match", "blue"), metrics_of("dispatch", "green")
    match.add_metric("shards_owned", MetricUnit.Count, 1)
    dispatch.add_metric("latency", MetricUnit.Milliseconds, 1)
    dispatch.flush_metrics()

    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["service"], line["stage"]) == ("dispatch", "green")
    assert "shards_owned" not in line
