"""Lines that no component of Clarion writes: each is taken in as it is, or kept apart, and none ends a job."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clarion.clock import now_ms
from clarion.decisions import PushDecision
from clarion.events import Event
from pipeline.__main__ import main
from pipeline.columns import UNREADABLE, EventKind
from pipeline.compaction.compact import compact
from pipeline.explain.request import ExplainRequest, explain
from pipeline.lake.event_lake import EventLake
from pipeline.lake.lookup import Lookup
from pipeline.lake.raw import MAX_LINE_BYTES
from pipeline.period import DAY_MS, HOUR_MS, Period, instant_text
from tests.pipeline.small_lake import PHONE, START, SmallLake, Way, ruled, subscribed

WAY = Way(START)
OBSERVED, ENVELOPE, NOTIFIED, PUSHED = WAY.delivered()
SUBSCRIBED, RULED = subscribed(), ruled(WAY.key)
PERIOD = Period(START - DAY_MS, START + DAY_MS)


def line(event: Event, **values: object) -> str:
    return json.dumps({**json.loads(event.to_line()), **values}, separators=(",", ":"))


def odd() -> Iterator[str]:
    """What an event says, but for one value."""
    for raw in ("A", "=", "n\u00f6", 7):
        yield line(OBSERVED, raw=raw)
    for decided in (ENVELOPE, NOTIFIED, PUSHED):
        yield line(decided, decision="tea")
        yield line(decided, envelope_id="abc")
    yield line(NOTIFIED, sender="zz")
    yield line(NOTIFIED, judged_at="soon")
    yield line(NOTIFIED, channel="pigeon")
    yield line(PUSHED, purpose="fun")
    yield line(SUBSCRIBED, status="asleep")
    yield line(RULED, change="moved")
    rules: object
    for rules in ([None], [{}], [{"key": "abc"}], "all", {"key": WAY.key.hex()}):
        yield line(RULED, rules=rules)
    for name in ("receipt", "subscription_id"):
        yield line(PUSHED, **{name: f"{WAY.receipt}\n"})
    yield line(PUSHED, at=1e300)
    yield line(PUSHED, at=10**40)


NO_EVENTS = [
    "[" * 500_000,
    '{"event":"push","a":' * 20_000,
    "null",
    "7",
    '"push"',
    "[]",
    "1e999999999",
    "9" * 100_000,
    '{"event":"push","event":"push"}',
    "\u2028\ufeff\x00",
    "💥" * 1_000,
]
"""Lines that are none at all."""
STRANGE = [
    line(ENVELOPE, reason="\x00\u202e💥\ufffe\n"),
    line(ENVELOPE, reason="x" * (MAX_LINE_BYTES - 1_000)),
    line(ENVELOPE, more={"deep": [[[]]] * 1_000}),
]
"""Events all the same."""


def arrive(lake: EventLake, lines: list[str]) -> None:
    folder = Path(lake.root) / "events/day=2026-09-21/hour=14"
    folder.mkdir(parents=True)
    (folder / "file").write_text("".join(f"{each}\n" for each in lines))


@pytest.fixture
def hostile(lake: EventLake) -> EventLake:
    """Not compacted yet."""
    good = [line(event) for event in (SUBSCRIBED, RULED, *WAY.delivered())]
    arrive(lake, [*good, *odd(), *NO_EVENTS, *STRANGE])
    return lake


def test_what_is_no_event_is_kept_apart_and_ends_nothing(hostile: EventLake) -> None:
    bad = [*odd(), *NO_EVENTS]
    lines = compact(hostile, PERIOD, now_ms()).lines
    kept = {row["value"] for row in hostile.spark.read.parquet(hostile.path(UNREADABLE)).collect()}
    assert kept == set(bad)
    assert lines == dict.fromkeys(set(EventKind) - {EventKind.LIMITS}, 1) | {
        UNREADABLE: len(bad),
        EventKind.ENVELOPE: 1 + len(STRANGE),
    }


@pytest.mark.parametrize("compacted", [True, False])
def test_it_keeps_nobody_from_an_explanation_which_says_that_it_is_not_sure(
    hostile: EventLake, *, compacted: bool
) -> None:
    if compacted:
        compact(hostile, PERIOD, now_ms())
    lookup = Lookup(hostile.root)
    answer = explain(lookup, ExplainRequest(WAY.envelope_id, Period(START, START + HOUR_MS)))
    assert [one.subscription_id for receipt in answer.receipts for one in receipt.notifications] == [str(PHONE)]
    assert any("can't be read" in doubt for doubt in lookup.doubts(PERIOD))


def test_the_words_of_others_never_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = SmallLake(tmp_path)
    said = WAY.push(PushDecision.REFUSED).model_copy(update={"status": 400, "reason": "\x1b[2J\x07\x9b31m\nright"})
    lake.commit(SUBSCRIBED, RULED, *WAY.delivered()[:3], said, at=START)
    around = ["--from", instant_text(START - HOUR_MS), "--to", instant_text(START + HOUR_MS)]
    assert main(["explain", str(WAY.receipt), "--lake", lake.root, *around]) == 0
    shown = capsys.readouterr().out
    assert "[2J" in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|\nright", shown)
