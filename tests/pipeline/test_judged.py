"""What a reconciliation says of itself, and that the page repeats it: its terms, and what it could not judge."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks import XMTP
from pipeline import arguments
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.generator.writing import declare_complete
from pipeline.lake.event_lake import EventLake
from pipeline.period import HOUR_MS, Period, instant_text
from pipeline.report.page import page
from pipeline.report.report_files import page_path
from pipeline.report.summary import summarise
from pipeline.terms import Terms, judged_by, tables_of, terms_of
from tests.pipeline import reports
from tests.pipeline.reports import ABOUT
from tests.pipeline.small_lake import write_rows
from tests.pipeline.test_page import text_of
from tests.pipeline.test_xmtp import (  # noqa: F401 - fixtures
    DECIDED,
    NOW,
    OWNER,
    PERIOD,
    START,
    decide,
    lake,
    recorded,
)

CLIENT = b"a client"
TERMS = st.builds(
    Terms,
    grace=st.integers(0, 3_600).map(lambda seconds: 1_000 * seconds),
    late=st.integers(1, 3_600).map(lambda seconds: 1_000 * seconds),
    lookback=st.integers(1, 900).map(lambda hours: HOUR_MS * hours),
)


def rows(tables: Mapping[str, pa.Table]) -> reports.MadeUp:
    return {name: table.to_pylist() for name, table in tables.items()}


@given(TERMS)
def test_the_command_to_replay_judges_by_the_terms_of_the_reconciliation(terms: Terms) -> None:
    _, *words = shlex.split(replace(ABOUT, lake="/var/lake", terms=terms).replay(difference="missing"))
    wanted = arguments.parse(words)
    assert (terms_of(wanted), wanted.difference, wanted.period) == (terms, "missing", reports.PERIOD)


def test_terms_that_are_as_by_default_are_not_repeated() -> None:
    assert Terms().options() == []
    assert Terms(late=5_000).options() == ["--late-seconds", "5"]
    assert Terms(0, 5_000, HOUR_MS).options("grace", "late") == ["--grace-seconds", "0", "--late-seconds", "5"]


def test_the_command_to_explain_has_the_terms_that_explain_knows() -> None:
    words = shlex.split(replace(ABOUT, terms=Terms(0, 5_000, HOUR_MS)).explain(reports.RECEIPT))
    assert words[-4:] == ["--grace-seconds", "0", "--late-seconds", "5"]


@given(TERMS, st.none() | st.just("s3://clarion-large"))
def test_terms_come_out_of_their_table_as_they_went_in(terms: Terms, oversize: str | None) -> None:
    assert judged_by(rows(tables_of(terms, oversize, {}, {}))) == (terms, oversize)


def test_without_a_reconciliation_the_terms_are_those_by_default() -> None:
    assert judged_by(reports.not_compared()) == (Terms(), None)


def test_what_a_secret_decides_is_counted_by_network_beside_what_was_delivered() -> None:
    secret = rows(tables_of(Terms(), None, {"xmtp": 1_204, "statements": 3}, {}))
    text = text_of(page(reports.healthy() | secret, ABOUT))
    assert (
        "9,360 of 9,504 wanted notifications delivered: 98.4%. "
        "Not judged, since a secret condition alone says what was right: 1,204 of xmtp, 3 of statements."
    ) in text


def test_a_day_is_not_healthy_of_which_large_envelopes_were_not_read() -> None:
    large = rows(tables_of(Terms(), None, {}, {"statements": 2}))
    for day in (reports.healthy(), reports.empty()):
        text = text_of(page(day | large, ABOUT))
        assert "2 large envelopes were not read" in text
        assert "Not all is known" in text
        assert "Not judged, since they are too large for a message and were not read: 2 of statements." in text


@pytest.mark.parametrize("day", reports.DAYS)
def test_where_nothing_is_left_unjudged_the_page_says_nothing_of_it(day: str) -> None:
    tables = reports.DAYS[day]() | rows(tables_of(Terms(), None, {}, {}))
    assert summarise(tables).not_judged == ""
    assert "Not judged" not in text_of(page(tables, ABOUT))


def test_the_page_of_a_reconciliation_repeats_its_terms_so_that_replay_finds_the_same(
    lake: EventLake,  # noqa: F811 - a fixture
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The rules changed five seconds before: by default nobody can say what is right, and nothing would be found."""
    write_rows(lake, EventKind.SUBSCRIPTION, [(START - 5_000, XMTP, OWNER, CLIENT, "apns", "active", None, 1, 1)])
    decide(lake, [decided for decided in DECIDED if decided[:2] != (1, OWNER)])
    declare_complete(lake.root, Period(PERIOD.start - HOUR_MS, PERIOD.end + HOUR_MS).hours(), NOW)
    lake.view.refresh()
    period = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end), "--now", instant_text(NOW)]
    large = str(Path(lake.root).with_name("large"))
    terms = ["--grace-seconds", "0", "--lookback-hours", "1", "--oversize", large]
    JOBS["reconcile"](lake, arguments.parse(["reconcile", "--lake", lake.root, *period, *terms]))
    JOBS["report"](lake, arguments.parse(["report", "--lake", lake.root, *period]))
    text = text_of((Path(lake.root) / page_path(PERIOD)).read_text())
    assert "Not judged, since a secret condition alone says what was right: 1 of xmtp." in text

    [command] = re.findall("clarion-pipeline (replay .*?) --dry-run", text)
    assert f"--oversize {large}" in command
    words = [*shlex.split(command), "--now", instant_text(NOW), "--dry-run"]
    capsys.readouterr()
    assert JOBS["replay"](EventLake(lake.spark, lake.root), arguments.parse(words)) == 0
    assert "» " + " " * 11 + "1 notifications to send again" in capsys.readouterr().err
