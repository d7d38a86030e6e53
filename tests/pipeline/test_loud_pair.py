"""What `make bench-pipeline` and `make bench-pair` measure with, at a small size."""

import pytest
from pyspark.sql import SparkSession

from bench.pipeline import Reconciled, line
from bench.pipeline_pair import comparisons, limit_of, worker_mib
from clarion.networks import STATEMENTS
from pipeline.in_force.limits import LimitHistory, default_span
from pipeline.reconciliation.verdicts import contradictions


def test_a_pair_with_ten_thousand_attempts_is_judged_whole(spark: SparkSession) -> None:
    history = LimitHistory({STATEMENTS: (default_span(STATEMENTS),)})
    attempts = comparisons(spark, 20_000, limit_of(history))

    assert contradictions(attempts, history).count() == 0
    assert 0 < worker_mib() < 1_024


def test_a_line_has_its_slope_and_its_constant_apart() -> None:
    counts = 100, 400, 1_600
    points = [Reconciled(count, 5.0, processor=10 + count / 1_000, right=True) for count in counts]
    assert line(points) == pytest.approx((0.001, 10))
