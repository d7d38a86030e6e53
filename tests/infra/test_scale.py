"""docs/scale.md against what is deployed and measured."""

import json

import pytest
from aws_cdk.assertions import Template

from bench.figures import MEASURED
from bench.scale import (
    COST_PAGE,
    MILLION,
    MOST_TASKS,
    NEW_TABLE_WRITES,
    PAGE_OF_DOCS,
    PARTITION_WRITES,
    READ_CPU_S,
    Aftermath,
    Capacities,
    Measured,
    components,
    crowd_s,
    shared_cpu_s,
    tables,
)
from infra.environments import PROD
from tests.match.ledger import read_table

DOCS = PAGE_OF_DOCS.read_text()


def test_the_page_states_what_is_computed(prod: Template) -> None:
    for table in tables(prod):
        assert "\n".join(["", *table, ""]) in DOCS


def test_a_million_are_queued_within_two_minutes_by_what_warm_tables_take(prod: Template) -> None:
    workers, page_s = Capacities.of(prod).pages.concurrency, Measured.read().page_s()
    assert crowd_s(MILLION, workers, page_s) <= 120
    assert MILLION / crowd_s(MILLION, workers, Measured.read().fastest_page_s()) <= 20_000


def test_the_page_states_how_long_a_million_take_to_add_one_sender() -> None:
    seconds = MILLION // PARTITION_WRITES
    assert f"take {round(seconds / 60)} minutes: 1,000,000 / 1,000 = {seconds:,} s" in DOCS
    assert f"Spread over two hours a million are {round(MILLION / 7_200)} a second" in DOCS
    assert f"{PROD.api.rate} requests a second are {MILLION / PROD.api.rate / 60:.0f} minutes" in DOCS


def test_the_page_states_what_a_few_legs_would_take() -> None:
    assert 420 < crowd_s(MILLION, 4, Measured.read().page_s()) < 500
    assert "a million would take some eight minutes" in " ".join(DOCS.split())


def test_a_crowd_is_pushed_after_it_is_queued_and_alarms_go_off_meanwhile(prod: Template) -> None:
    after = Aftermath.of(Capacities.of(prod), Measured.read())
    assert after.pushed_s == pytest.approx(MILLION / 10 / PROD.dispatch.concurrency * Measured.read().dispatch_batch_s)
    assert after.queued_s < after.alarm_s(PROD.thresholds.call_age_s) < after.alarm_s(PROD.thresholds.push_age_s)
    assert after.alarm_s(PROD.thresholds.push_age_s) < after.pushed_s
    assert after.longest_wait_s + after.queued_s == after.pushed_s
    kept_up = Aftermath(after.queued_s, MILLION * after.each_s / after.keeping_up, after.each_s)
    assert kept_up.pushed_s <= after.queued_s


@pytest.mark.parametrize(
    ("before", "component", "limit"),
    [
        (300, "pipeline, a whole day", "GB of its disks"),
        (400, "events, in all other regions", "Firehose's bytes"),
        (1_000, "ingest, one task", "processors"),
        (1_000, "dispatch, a channel", "`concurrency`"),
        (2_000, "events, in three regions", "Firehose's bytes"),
        (3_000, "match", "`concurrency`"),
        (4_000, "push_records, rate_limits", "writes of a new table"),
        (12_000, "subscriptions", "reads of a new table"),
        (24_000, "rate_limits, by_key of rules", "reads of a new table"),
        (40_000, "push_records, rate_limits", "writes of a table"),
    ],
)
def test_the_page_says_to_raise_a_limit_before_it_is_met(
    prod: Template, before: int, component: str, limit: str
) -> None:
    ledger = read_table(COST_PAGE.read_text())
    rows = {(each.name, each.limit): each for each in components(Capacities.of(prod), Measured.read(), ledger)}
    assert 0.6 <= before / rows[component, limit].at <= 1
    raising = DOCS.partition("## What to raise, and when")[2].partition("\n## ")[0]
    assert f"{before:,}" in raising


def test_the_page_states_what_warm_throughput_costs_once() -> None:
    assert f"so ${(20_000 - NEW_TABLE_WRITES) * 0.00065:.2f} a table" in DOCS


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
