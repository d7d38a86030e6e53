"""What the report's page says, by its HTML; what a person sees of it is in test_page_in_chromium.py."""

import re
import shlex
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clarion.channels import CHANNELS
from clarion.networks.xmtp.topics import group_topic
from pipeline import arguments
from pipeline.findings import REPAIRABLE
from pipeline.period import DAY_MS, HOUR_MS, Period, instant_text
from pipeline.report.charts import ChartSeries, bars, lines, number
from pipeline.report.page import page
from pipeline.report.sections import COLOURS, sender_name
from pipeline.report.summary import percent, summarise
from pipeline.report.wrong import when
from tests.pipeline import reports
from tests.pipeline.reports import ABOUT, MadeUp, earlier

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


class Outline(HTMLParser):
    """The tags of a page and their classes, but for the words of its commands, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "span":
            self.tags.append((tag, dict(attrs).get("class")))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def rendered(tables: MadeUp) -> str:
    return page(tables, ABOUT, earlier())


@cache
def harmless() -> list[tuple[str, str | None]]:
    """The tags of a page with words that mean nothing to a browser."""
    return Outline(rendered(reports.hostile("harmless"))).tags


def text_of(html: str) -> str:
    """What follows the styles."""
    return Outline(html.partition("</style>")[2]).text


@pytest.mark.parametrize(
    ("day", "badge", "headline"),
    [
        ("outage", "Something went wrong", "1,317 notifications missing"),
        ("healthy", "Healthy", "All went as it should"),
        ("empty", "Empty", "Nothing came in, and nothing was missed"),
        ("incomplete", "Not all is known", "3 of 24 hours can't be judged"),
        ("provisional", "Provisional", "Nothing went wrong so far"),
        ("not compared", "Not compared", "Not reconciled: nobody knows what is missing"),
    ],
)
def test_a_page_begins_with_how_the_day_went(day: str, badge: str, headline: str) -> None:
    html = rendered(reports.DAYS[day]())
    assert text_of(html).startswith(f"{badge} {headline} ")
    assert f"<title>{headline.replace("'", '&#39;')}: 2026-11-20 00:00 to 2026-11-21 00:00 UTC</title>" in html


def test_a_loss_is_named_with_its_hour_network_evidence_and_what_else_went_wrong() -> None:
    text = text_of(rendered(reports.outage()))
    assert "Most of them, 1,210, between 2026-11-20 14:00 and 15:00 UTC (statements)." in text
    assert "And 12 late, 9 wrongly dropped, 5 pushed against rules or limits (unexpected)." in text
    assert "8,826 of 9,504 wanted notifications delivered: 92.8%." in text
    assert "2026-11-20 14:00 missing statements 1,210" in text
    assert (
        f"evidence queued, but never tried alike 1,210 at 2026-11-20 14:00:00 UTC receipt {reports.RECEIPT[:-1]}0"
        in text
    )


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([5], "All between 2026-11-20 00:00 and 01:00 UTC (xmtp)."),
        ([1, 3], "Most of them, 3, between 2026-11-20 01:00 and 02:00 UTC (xmtp)."),
        ([1, 1, 1], "In 3 hours, at most 1 in one of them (xmtp)."),
        ([2, 2], "In 2 hours, at most 2 in one of them (xmtp)."),
    ],
)
def test_an_hour_is_named_only_if_more_than_half_was_in_it(counts: list[int], text: str) -> None:
    start = reports.PERIOD.start
    rows = [{"hour": start + place * HOUR_MS, "network": "xmtp", "count": each} for place, each in enumerate(counts)]
    assert when(rows) == text


def test_the_most_frequent_kind_leads_whatever_comes_first_by_the_hour() -> None:
    wrong = summarise(reports.outage()).wrong
    assert wrong is not None
    assert list(wrong.values()) == [1_317, 12, 9, 5]


def test_missing_hours_come_before_a_loss_which_nobody_is_told_to_replay() -> None:
    text = text_of(rendered(reports.outage() | {"hours": reports.incomplete()["hours"]}))
    assert text.startswith("Not all is known 3 of 24 hours can't be judged And 1,317 missing, 12 late, ")
    assert "More may be wrong than is known, or less" in text
    assert "replay --from" not in text
    assert "2026-11-20/05 nothing has arrived" in text


@pytest.mark.parametrize("day", ["healthy", "outage"])
def test_an_hour_that_is_not_over_makes_every_verdict_provisional(day: str) -> None:
    text = text_of(rendered(reports.DAYS[day]() | {"hours": reports.provisional()["hours"]}))
    assert "Provisional: 2 of 24 hours are not over yet." in text
    assert "hours sealed 22 of 24" in text
    assert "2026-11-20/23 not over yet 41,203 -" in text


def test_missing_hours_are_never_called_healthy() -> None:
    text = text_of(rendered(reports.incomplete()))
    assert "Healthy" not in text
    assert "2026-11-20/23 1204 lines have arrived, of 99817 records at least" in text


@pytest.mark.parametrize("lake", ["/var/lake", "/var/a lake; rm -rf 'x'"])
def test_the_command_on_the_page_replays_exactly_what_was_reported(lake: str) -> None:
    command = replace(ABOUT, lake=lake).replay(difference="missing")
    program, *words = shlex.split(command)
    wanted = arguments.parse(words)
    assert program == "clarion-pipeline"
    assert (wanted.job, wanted.lake, wanted.oversize) == ("replay", lake, "s3://clarion-large")
    assert (wanted.period, wanted.difference) == (reports.PERIOD, "missing")


def test_a_lake_on_s3_is_repaired_by_the_function_that_the_docs_define() -> None:
    [function] = re.findall(r"^(\w+)\(\) \{ start_job Repairs Replay replay ", OPERATIONS.read_text(), re.MULTILINE)
    command = ABOUT.replay()
    assert shlex.split(command) == [function, "--from", "2026-11-20T00:00:00", "--to", "2026-11-21T00:00:00"]
    assert (
        f"{command} --dry-run {command} Each of the 24 hours of arrival is sealed, and reconcile found no other"
        in text_of(rendered(reports.outage()))
    )


def test_a_lake_elsewhere_is_repaired_once_the_queue_is_known() -> None:
    text = text_of(page(reports.outage(), replace(ABOUT, lake="/var/lake", stage="prod"), earlier()))
    queue = '"$(aws sqs get-queue-url --queue-name clarion-prod-envelopes --output text)"'
    assert f"--dry-run export CLARION_ENVELOPES_QUEUE_URL={queue} clarion-pipeline replay --lake /var/lake" in text


def test_what_one_network_has_lost_is_sent_again_alone() -> None:
    text = text_of(rendered(reports.outage()))
    commands = re.findall(r"--difference (\w+) --network (\w+)", text)
    lost = {(row["difference"], row["network"]) for row in reports.outage()["differences"]}
    assert set(commands) == {each for each in lost if each[0] in REPAIRABLE} != set()


def test_each_step_of_an_example_is_a_command_away() -> None:
    receipt = f"{reports.RECEIPT[:-1]}0"
    words = f"{receipt} --lake s3://clarion-lake --oversize s3://clarion-large --from 2026-11-20T00:00:00"
    assert f"clarion-pipeline explain {words}" in text_of(rendered(reports.outage()))


def test_what_cannot_be_sent_again_has_no_command() -> None:
    only_late = [row for row in reports.outage()["differences"] if row["difference"] == "late"]
    text = text_of(rendered(reports.outage() | {"differences": only_late}))
    assert "12 notifications late" in text
    assert "replay --from" not in text


def test_a_day_without_a_report_is_missing_in_the_week() -> None:
    text = text_of(rendered(reports.healthy()))
    assert "11-14 9,360 of 9,504 98.4% 0 0 of 24" in text
    assert "11-16 no report - - -" in text
    assert "11-17 8,826 of 9,504 92.8% 1,343 0 of 24" in text
    assert "11-18 9,360 of 9,504 98.4% 0 3 of 24" in text


def test_the_page_says_what_it_was_made_of() -> None:
    text = text_of(rendered(reports.incomplete()))
    assert "lake s3://clarion-lake stage prod made 2026-11-21 02:01:30 UTC" in text
    assert "newest hour with anything 2026-11-21/00 hours sealed 21 of 24 reconciled yes" in text
    assert "statements always 30 in 60 s, then none for 120 s 300 in 60 s" in text
    assert "48 in all. A dead token ends its subscription." in text
    assert "$0.0367, $3.92 for a million delivered." in text


@pytest.mark.parametrize("day", reports.DAYS)
def test_the_page_stands_alone(day: str) -> None:
    html = rendered(reports.DAYS[day]())
    assert not re.search(r"<script|<link|<img|<iframe|\b\w+://(?!clarion-)|url\(|@import|javascript:", html)
    assert "None" not in re.sub(r"<dd>[^<]*</dd>", "", html).replace(">None.<", "")


def test_beside_each_chart_is_a_table_of_the_same() -> None:
    tags = Outline(rendered(reports.outage())).tags
    charts = [place for place, (tag, _) in enumerate(tags) if tag == "svg"]
    ends = [place for place, (tag, _) in enumerate(tags) if tag in {"section", "article"}]
    sections = {max(end for end in ends if end < chart) for chart in charts}
    assert len(charts) == 7
    for section in sections:
        rest = [tag for tag, _ in tags[section + 1 :]]
        assert "table" in rest[: rest.index("section")]


STRANGE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40)
PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></title><b>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;",
    "'",
]


@pytest.mark.parametrize("text", PAYLOADS)
def test_a_strangers_words_are_shown_as_they_are(text: str) -> None:
    """In sender names, reasons, evidence, receipts, networks, channels and what is said of hours and limits."""
    shown = Outline(rendered(reports.hostile(text)))
    assert shown.tags == harmless()
    assert shown.texts.count(text) >= 30


@given(STRANGE)
@settings(max_examples=20)
def test_no_text_changes_what_the_page_is_made_of(text: str) -> None:
    assert Outline(rendered(reports.hostile(text))).tags == harmless()


def test_the_page_names_each_of_the_senders() -> None:
    """Of XMTP they are topics, which all begin alike."""
    keys = [bytes([number]) * 32 for number in range(2)]
    topics = [group_topic(key[:16]).encode() for key in keys]
    names = [sender_name(sender.hex()) for sender in [*keys, *topics]]
    assert names == ["000000000000…", "010101010101…", "/xmtp/mls/1/g-0000000000…", "/xmtp/mls/1/g-0101010101…"]


def test_a_chart_says_its_name_and_each_value_and_has_no_code() -> None:
    svg = bars("Pushes, by <hour>", "hour", ["06:00", "07:00"], [ChartSeries("<b>", "c1", [1, 2_000])])
    assert 'aria-label="Pushes, by &lt;hour&gt;"' in svg
    assert "<title>07:00: 2,000</title>" in svg
    assert not re.search(r"<script|<style|<!--|xmlns|<b>", svg)


def test_a_line_is_interrupted_where_nothing_is_known() -> None:
    svg = lines("Share", "day", ["1", "2", "3", "4", "5"], [ChartSeries("share", "c1", [1, 2, None, 4, 5])], (0, 5))
    assert svg.count("<circle") == 4
    assert svg.count('class="line reactive nofill"') == 2


def test_a_chart_of_nothing_is_still_a_chart() -> None:
    assert bars("Nothing", "hour", ["06:00"], [ChartSeries("pushes", "c1", [0])]).startswith("<svg")


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (950, "950"), (12_400, "12.4k"), (3_100_000, "3.1M"), (0.25, "0.25")]
)
def test_numbers_are_written_shortly(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("part", "whole", "text"), [(1, 1, "100.0%"), (99_999, 100_000, "99.9%"), (0, 3, "0.0%")])
def test_no_share_but_all_is_a_hundred_per_cent(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text


def test_each_channel_has_a_colour_of_its_own_that_the_page_defines() -> None:
    assert list(COLOURS) == [str(channel) for channel in CHANNELS]
    assert len(set(COLOURS.values())) == len(CHANNELS)
    html = rendered(reports.healthy())
    assert all(f".{colour} {{ color:" in html for colour in COLOURS.values())


def test_a_period_of_several_days_names_the_day_of_each_hour() -> None:
    two_days = replace(ABOUT, period=Period(reports.START - DAY_MS, reports.PERIOD.end))
    html = page(reports.outage(), two_days)
    assert instant_text(two_days.period.start)[:-3] in html
    assert "19. 00h" in html
