"""The lake asked in SQL: the queries of docs/lake.md, and names that need no quotes."""

import re
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline.columns import COLUMNS, EventKind
from pipeline.generator.plan import Plan
from pipeline.lake.event_lake import EventLake
from pipeline.period import HOUR_MS, Period, instant_text

PAGE = (Path(__file__).parents[2] / "docs" / "lake.md").read_text()
PUSHES, DIFFERENCES, MESSAGES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
ALL = sorted({column.file_name for columns in COLUMNS.values() for column in columns} | {"day", "hour"})


@pytest.mark.parametrize("name", ALL)
def test_a_column_needs_no_quotes_in_duckdb(name: str) -> None:
    asked = f"SELECT max({name}) FROM lines WHERE {name} > 0 GROUP BY {name} ORDER BY {name}"  # noqa: S608 - ours
    with duckdb.connect() as database:
        assert database.execute(f"CREATE TABLE lines ({name} INT); {asked}").fetchall() == []


def test_the_names_that_events_have_would_need_them() -> None:
    with duckdb.connect() as database:
        for name in ("at", "order", "window"):
            with pytest.raises(duckdb.ParserException):
                database.execute(f"SELECT {name} FROM (SELECT 1 AS {name})")  # noqa: S608 - ours


def ask(query: str, lake: EventLake, plan: Plan) -> list[tuple[object, ...]]:
    """A query of the page, about the made-up day and its first hour."""
    begin, end = (instant_text(plan.start + hours * HOUR_MS) for hours in (0, 1))
    here = query.replace("s3://LAKE_BUCKET", lake.root).replace("day=2026-11-20", f"day={begin[:10]}")
    here = here.replace("2026-11-20 16:00:00", begin).replace("2026-11-20 17:00:00", end)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        return database.execute(here).fetchall()


def test_the_pages_query_counts_the_pushes_of_an_hour_as_spark_does(day: EventLake, plan: Plan) -> None:
    hour = Period(plan.start, plan.start + HOUR_MS)
    pushes = day.read(EventKind.PUSH).where(hour.has(F.col("at")))
    attempts = F.countDistinct("receipt", "subscription_id", "attempt")
    counted = {tuple(row) for row in pushes.groupBy("decision", "reason").agg(attempts).collect()}
    assert set(ask(PUSHES, day, plan)) == counted
    assert counted


def test_the_pages_query_counts_the_differences_of_a_day(day: EventLake, plan: Plan, differences: DataFrame) -> None:
    asked = DIFFERENCES.replace("TIMESTAMP '2026-11-20'", f"TIMESTAMP '{instant_text(plan.period.start)}'")
    asked = asked.replace("TIMESTAMP '2026-11-21'", f"TIMESTAMP '{instant_text(plan.period.end)}'")
    columns = ("difference", "evidence", "network", "channel")
    counted = {tuple(row) for row in differences.groupBy(*columns).count().collect()}
    assert set(ask(asked, day, plan)) == counted
    assert counted


def test_the_pages_query_counts_what_was_decided_about_a_topic(day: EventLake, plan: Plan) -> None:
    everything = MESSAGES.replace("  AND key = '\\x02'::BLOB || encode('/xmtp/mls/1/g-00ff/proto')\n", "")
    assert ask(MESSAGES, day, plan) == []
    rows = ask(everything, day, plan)
    assert all(str(topic).startswith("/xmtp/mls/1/") for topic, *_ in rows)
    counted = day.read(EventKind.NOTIFICATION).where("network = 'xmtp'")
    decided = {row[0] for row in counted.select("decision").distinct().collect()}
    assert {decision for _, _, decision, _ in rows} == decided
