import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from clarion.channels import CHANNELS
from clarion.decisions import Purpose
from clarion.networks.xmtp.topics import group_topic
from pipeline.charts import ChartSeries, bars, number
from pipeline.generator.plan import Plan
from pipeline.lake import EventLake
from pipeline.page import COLOURS, page
from pipeline.period import HOUR_MS
from pipeline.report import latency, report
from pipeline.schemas import EventKind


@pytest.fixture(scope="module")
def tables(day: EventLake, plan: Plan) -> dict[str, list[dict[str, Any]]]:
    frames = report(day, plan.period, plan.start + 24 * HOUR_MS).by_name
    return {name: [row.asDict() for row in table.collect()] for name, table in frames.items()}


def test_the_funnel_counts_each_envelope_and_delivery_once(
    day: EventLake, plan: Plan, tables: dict[str, list[dict[str, Any]]]
) -> None:
    counts = dict.fromkeys(("envelopes", "wanted", "queued", "delivered"), 0)
    for row in tables["funnel"]:
        counts[row["stage"]] += row["count"]
    envelopes = day.read(EventKind.ENVELOPE).where(plan.period.has(F.col("at")))
    assert counts["envelopes"] == envelopes.select("receipt").distinct().count()
    assert counts["wanted"] > counts["queued"] >= counts["delivered"] > 0


def test_a_wake_ups_lateness_is_no_notifications_latency(spark: SparkSession) -> None:
    purposes = {None: 100, str(Purpose.NOTIFICATION): 100, str(Purpose.WAKE_UP): 60_000}
    rows = [(0, "apns", "delivered", purpose, latency_ms) for purpose, latency_ms in purposes.items()]
    pushes = spark.createDataFrame(rows, "at long, channel string, decision string, purpose string, latency_ms long")
    [found] = latency(pushes).collect()
    assert (found["p99"], found["count"]) == (100, 2)


def test_floods_show_among_the_senders_and_rules_at_each_hour(
    plan: Plan, tables: dict[str, list[dict[str, Any]]]
) -> None:
    assert sum(row["rate_limited"] > 0 for row in tables["senders"]) >= plan.floods
    assert [row["hour"] for row in tables["rules"]] == list(range(plan.start, plan.period.end, HOUR_MS))
    assert all(row["rules"] > 0 for row in tables["rules"])


def test_the_page_names_each_of_the_senders(plan: Plan, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Of XMTP they are topics, which all begin alike."""
    keys = [bytes([number]) * 32 for number in range(2)]
    topics = [group_topic(key[:16]).encode() for key in keys]
    senders = [{**tables["senders"][0], "sender": sender.hex(), "rate_limited": 0} for sender in [*keys, *topics]]
    labels = re.findall(r'class="name"[^>]*>([^<]+…)<', page({**tables, "senders": senders}, plan.period))
    assert labels == ["000000000000…", "010101010101…", "/xmtp/mls/1/g-0000000000…", "/xmtp/mls/1/g-0101010101…"]


def test_the_page_stands_alone(plan: Plan, tables: dict[str, list[dict[str, Any]]]) -> None:
    html = page(tables, plan.period)
    assert not re.search(r"<script|<link|<img|https?://|url\(|@import", html)
    assert html.count("<svg") >= 6
    assert "None" not in re.sub(r'<p class="none">None.</p>', "", html)


def test_a_chart_of_nothing_is_still_a_chart() -> None:
    assert bars([], [ChartSeries("apns", "c1", [])]).startswith("<svg")


def test_names_from_outside_are_escaped() -> None:
    assert "<b>" not in bars(["<b>"], [ChartSeries("<b>", "c1", [1])])


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (950, "950"), (12_400, "12.4k"), (3_100_000, "3.1M"), (0.25, "0.25")]
)
def test_numbers_are_written_shortly(value: float, text: str) -> None:
    assert number(value) == text


def test_each_channel_has_a_colour_of_its_own_that_the_page_defines(
    plan: Plan, tables: dict[str, list[dict[str, Any]]]
) -> None:
    assert list(COLOURS) == [str(channel) for channel in CHANNELS]
    assert len(set(COLOURS.values())) == len(CHANNELS)
    html = page(tables, plan.period)
    assert all(f".{colour} {{ fill:" in html for colour in COLOURS.values())
