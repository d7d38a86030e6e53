"""docs/scale.md against what is deployed and measured."""

import json

import pytest
from aws_cdk.assertions import Template

from bench.figures import MEASURED
from bench.scale import (
    MILLION,
    MOST_TASKS,
    PAGE_OF_DOCS,
    PARTITION_WRITES,
    READ_CPU_S,
    Aftermath,
    Capacities,
    Measured,
    crowd_s,
    shared_cpu_s,
    tables,
)
from infra.environments import PROD

DOCS = PAGE_OF_DOCS.read_text()


def test_the_page_states_what_is_computed(prod: Template) -> None:
    for table in tables(prod):
        assert "\n".join(["", *table, ""]) in DOCS


def test_a_million_are_queued_within_two_minutes_by_what_warm_tables_take(prod: Template) -> None:
    workers, page_s = Capacities.of(prod).pages.concurrency, Measured.read().page_s()
    assert crowd_s(MILLION, workers, page_s) <= 120
    busiest = Measured.read().page_cpu_s
    assert MILLION / crowd_s(MILLION, workers, busiest) <= 20_000


def test_the_page_states_how_long_a_million_take_to_add_one_sender() -> None:
    seconds = MILLION // PARTITION_WRITES
    assert f"take {round(seconds / 60)} minutes: 1,000,000 / 1,000 = {seconds:,} s" in DOCS
    assert f"Spread over two hours a million are {round(MILLION / 7_200)} a second" in DOCS
    assert f"{PROD.api.rate} requests a second are {MILLION / PROD.api.rate / 60:.0f} minutes" in DOCS


def test_the_page_states_what_a_few_legs_would_take() -> None:
    assert 600 < crowd_s(MILLION, 4, Measured.read().page_s()) < 720
    assert "a million would take more than ten minutes" in DOCS


def test_a_crowd_is_pushed_after_it_is_queued_and_alarms_go_off_meanwhile(prod: Template) -> None:
    after = Aftermath.of(Capacities.of(prod), Measured.read())
    assert after.pushed_s == pytest.approx(MILLION / 10 / PROD.dispatch.concurrency * Measured.read().dispatch_batch_s)
    assert after.queued_s < after.alarm_s(PROD.thresholds.call_age_s) < after.alarm_s(PROD.thresholds.push_age_s)
    assert after.alarm_s(PROD.thresholds.push_age_s) < after.pushed_s
    assert after.longest_wait_s + after.queued_s == after.pushed_s
    kept_up = Aftermath(after.queued_s, MILLION * after.each_s / after.keeping_up, after.each_s)
    assert kept_up.pushed_s <= after.queued_s


def test_the_page_says_which_figures_are_reckoned() -> None:
    figures = json.loads(MEASURED.read_text()).values()
    assert (len(figures), sum(one["how"].startswith("reckoned: ") for one in figures)) == (10, 5)
    assert "[ten figures](../bench/measured.json): five were measured" in DOCS


def test_fifty_thousand_a_second_are_more_than_tasks_of_ingest_can_read() -> None:
    assert MOST_TASKS / shared_cpu_s(Measured.read(), MOST_TASKS) < 50_000
    assert 0.6 < 50_000 * READ_CPU_S < 0.7
    assert 2 * 50_000 * READ_CPU_S > 1
    fifth = (5 / shared_cpu_s(Measured.read(), 5)) / (4 / shared_cpu_s(Measured.read(), 4))
    assert fifth == pytest.approx(1 + 1 / 6, abs=0.02)
