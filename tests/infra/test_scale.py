"""docs/scale.md against what is deployed and measured."""

from aws_cdk.assertions import Template

from bench.scale import (
    PAGE_OF_DOCS,
    PARTITION_WRITES,
    Capacities,
    Measured,
    crowd_s,
    tables,
)
from infra.environments import PROD

MILLION = 1_000_000
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


def test_the_page_states_how_long_dispatch_takes_for_a_million(prod: Template) -> None:
    apns = Capacities.of(prod).apns
    seconds = MILLION / apns.concurrency / apns.batch * Measured.read().dispatch_batch_s
    assert f"`concurrency` of {apns.concurrency}, a million iPhones take {seconds / 60:.0f} minutes" in DOCS
