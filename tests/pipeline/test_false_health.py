"""What was once called healthy although nobody could know: each has to end a strict run with 1, and to be named."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from pyspark.sql import SparkSession

from clarion.clock import now_ms
from clarion.events import LimitsLoaded
from clarion.networks import STATEMENTS
from pipeline import arguments
from pipeline.__main__ import main
from pipeline.cli import JOBS
from pipeline.columns import EventKind
from pipeline.compaction.compact import compact
from pipeline.compaction.counters import NotCounted
from pipeline.jobs import compact as compact_job
from pipeline.lake.commits import LakeView, manifest_path, read_manifest, update
from pipeline.lake.event_lake import EventLake
from pipeline.lake.plans import run_name
from pipeline.lake.schemas import PLAN
from pipeline.lake.snapshots import CLAIMS, day_of, snapshot_days
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, instant_text
from pipeline.reconciliation.changed_days import changed_days
from pipeline.reconciliation.due_days import is_judged
from pipeline.reconciliation.reconcile import reconcile
from pipeline.report.report_files import page_path
from pipeline.terms import DEFAULT
from tests.pipeline.conftest import copied
from tests.pipeline.small_lake import SmallLake, Way, ruled, subscribed
from tests.pipeline.test_daily import judged, nightly
from tests.pipeline.test_lake import lines_of

START = 1_790_000_000_000 // DAY_MS * DAY_MS
PERIOD = Period(START, START + HOUR_MS)
LOST = hour_path(START)
ASKED = ["--from", instant_text(PERIOD.start), "--to", instant_text(PERIOD.end)]
NOW = ["--now", instant_text(START + DAY_MS)]


def arrive(root: str, hours: Iterable[int], name: str = "file") -> None:
    """In each of these hours from START on, a worker of match has begun."""
    for number in hours:
        at = START + number * HOUR_MS
        day, hour = hour_path(at).split("/")
        folder = Path(root) / "events" / f"day={day}" / f"hour={hour}"
        folder.mkdir(parents=True, exist_ok=True)
        [line] = lines_of([LimitsLoaded(network=STATEMENTS, at=at, cap=300, cap_window=60_000)])
        (folder / f"{name}.jsonl").write_text(line)


@pytest.fixture(scope="module")
def healthy(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """An hour, the one before and the one after, in which nothing has happened but what always does."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("healthy")))
    arrive(lake.root, range(-1, 2))
    compact(lake, Period(START - HOUR_MS, START + DAY_MS), now_ms())
    return lake


@pytest.fixture
def lake(healthy: EventLake, tmp_path: Path) -> EventLake:
    return copied(healthy, tmp_path)


def strict(lake: EventLake, job: str = "reconcile", *words: str) -> int:
    return JOBS[job](lake, arguments.parse([job, "--strict", "--lake", lake.root, *(words or ASKED), *NOW]))


def test_a_lake_that_has_all_of_a_period_is_healthy(healthy: EventLake) -> None:
    assert strict(healthy) == 0


def test_a_reconciliation_keeps_nothing_in_the_session_once_it_is_over(healthy: EventLake) -> None:
    cached = healthy.spark._jsparkSession.sharedState().cacheManager()
    healthy.read(EventKind.LIMITS).persist().count()
    assert not cached.isEmpty()
    assert (strict(healthy), cached.isEmpty()) == (0, True)


def test_a_page_of_hours_that_came_after_they_were_compared_is_not_healthy(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = ["--now", instant_text(START + 30 * 60_000), "--provisional"]
    reconciled = arguments.parse(["reconcile", "--strict", "--lake", lake.root, *ASKED, *earlier])
    update(lake.root, LOST, lambda known: replace(known, sealed_at=None))
    lake.view.refresh()
    assert JOBS["reconcile"](lake, reconciled) == 0
    compact(lake, Period(START - HOUR_MS, START + DAY_MS), now_ms())
    assert strict(lake, "report") == 1
    assert "it has changed since it was compared" in Path(lake.path(page_path(PERIOD))).read_text()
    assert strict(lake) == 0
    assert strict(lake, "report") == 0


def test_an_absent_lake_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["daily", "--strict", "--lake", str(tmp_path / "absent")]) == 1
    assert "there is no lake" in capsys.readouterr().err


def test_a_removed_hour_is_not_healthy(lake: EventLake, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(lake.root) / manifest_path(LOST)).unlink()
    shutil.rmtree(next(Path(lake.root).glob(f"events/*/hour={LOST[-2:]}")))
    assert strict(lake) == 1
    printed = capsys.readouterr()
    assert f"incomplete: {LOST}: nothing has arrived" in printed.err
    assert json.loads(printed.out)["incomplete"] == 1


def test_an_hour_of_which_a_data_file_is_gone_is_named_before_it_is_read(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_manifest(lake.root, LOST)
    assert found
    (Path(lake.root) / found.files[0].path).unlink()
    with pytest.raises(FileNotFoundError):
        strict(lake)
    assert f"incomplete: {LOST}: 1 data files are gone" in capsys.readouterr().err


def replayed(lake: EventLake, *, dry: bool, queue: str = "https://sqs.example.org/queue") -> int:
    """The command line takes a time of the past only with --dry-run."""
    wanted = arguments.parse(["replay", "--dry-run", "--lake", lake.root, *ASKED, *NOW])
    wanted.dry_run = dry
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLARION_ENVELOPES_QUEUE_URL", queue)
        return JOBS["replay"](lake, wanted)


def test_a_replay_sends_nothing_of_what_may_only_be_missing_here(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(lake.root, [0], name="late")
    assert replayed(lake, dry=False) == 1
    assert "nothing is sent" in capsys.readouterr().err


@pytest.fixture
def quiet(lake: EventLake) -> EventLake:
    """Nothing came in the other hours of the day, as a counter says."""
    day = Period(START - HOUR_MS, START + DAY_MS)
    compact(lake, day, START + DAY_MS, dict.fromkeys(day.hours(), 0))
    return lake


@pytest.mark.parametrize("dry", [False, True])
def test_a_replay_sends_nothing_while_hours_after_its_period_are_not_compacted(
    quiet: EventLake, capsys: pytest.CaptureFixture[str], *, dry: bool
) -> None:
    """What was delivered, redriven or shown again since lies in them."""
    arrive(quiet.root, [5, 6, 9])
    assert replayed(quiet, dry=dry) == 1
    said = capsys.readouterr().err
    day = LOST[:10]
    for hours in (f"{day}/05 to 06", f"{day}/09"):
        assert f"incomplete: {hours}: 1 files have arrived since it was compacted" in said
    assert "nothing is sent" in said


@pytest.mark.parametrize(
    ("reason", "values"),
    [
        ("0 lines have arrived, of 5000 records at least", {"counted": 5_000}),
        ("it was not over when it was compacted", {"sealed_at": None}),
    ],
)
def test_a_replay_sends_nothing_while_an_hour_after_its_period_may_hide_what_was_delivered(
    quiet: EventLake, reason: str, values: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    update(quiet.root, later := hour_path(START + 5 * HOUR_MS), lambda known: replace(known, **values))
    quiet.view.refresh()
    assert replayed(quiet, dry=False) == 1
    assert f"incomplete: {later}: {reason}" in capsys.readouterr().err


def test_a_replay_sends_nothing_while_an_hour_after_its_period_has_lines_that_cannot_be_read(
    quiet: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(quiet.root, [5])
    [path] = Path(quiet.root).glob("events/*/hour=05/*")
    path.write_text(path.read_text().replace('"version":1', '"version":2'))
    compact(quiet, Period(START + 5 * HOUR_MS, START + 6 * HOUR_MS), START + DAY_MS)
    assert replayed(quiet, dry=False) == 1
    assert f"incomplete: {LOST[:10]}/05: 1 lines can't be read" in capsys.readouterr().err


@pytest.fixture
def queue() -> Iterator[str]:
    """The URL of a queue of SQS."""
    with mock_aws():
        yield boto3.client("sqs", region_name="eu-central-1").create_queue(QueueName="envelopes")["QueueUrl"]


def test_a_replay_leaves_a_stopped_run_alone_while_hours_since_what_it_has_left_are_missing(
    quiet: EventLake, queue: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one run the lake has nothing of the three hours before the replay's own first one; of the other it has all."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    for run, observed_at in (("000001", START - 4 * HOUR_MS), ("000002", START)):
        message = json.dumps({"run": run, "observed_at": observed_at})
        quiet.write_named(run_name(run), quiet.spark.createDataFrame([(0, run, "s", message)], PLAN), START)
    assert replayed(quiet, dry=True) == 1
    said = capsys.readouterr().err
    first, last = (hour_path(START - hours * HOUR_MS) for hours in (5, 2))
    assert f"incomplete: {first} to {last[-2:]}: nothing has arrived" in said
    assert "nothing is sent of run 000001" in said
    assert "  2 messages that earlier runs have still to send" in said
    assert replayed(quiet, dry=False, queue=queue) == 1
    received = boto3.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(each["Body"])["run"] for each in received] == ["000002"]


def test_a_replay_names_hours_of_which_nothing_has_come_or_nobody_has_compacted_it(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed(lake, dry=True) == 1
    assert f"incomplete: {LOST[:10]}/02 to 22: nothing has arrived" in capsys.readouterr().err


def test_a_replay_goes_on_while_only_the_hour_under_way_has_new_files_that_have_just_come(
    quiet: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    arrive(quiet.root, [5])
    now = ["--now", instant_text(START + 6 * HOUR_MS - 1_000)]
    asked = arguments.parse(["replay", "--lake", quiet.root, "--dry-run", *ASKED, *now])
    assert JOBS["replay"](quiet, asked) == 0
    assert "incomplete" not in capsys.readouterr().err
    [path] = Path(quiet.root).glob("events/*/hour=05/*")
    os.utime(path, times=((START + 5 * HOUR_MS) / 1000, (START + 5 * HOUR_MS) / 1000))
    assert JOBS["replay"](quiet, asked) == 1
    assert f"incomplete: {LOST[:10]}/05: 1 files have arrived" in capsys.readouterr().err


def test_a_count_of_an_hour_never_goes_down(lake: EventLake) -> None:
    for count in (5_000, 0):
        compact(lake, PERIOD, START + DAY_MS, {LOST: count})
    found = read_manifest(lake.root, LOST)
    assert found
    assert found.counted == 5_000


def test_a_count_that_comes_a_night_later_has_the_day_judged_again(spark: SparkSession, tmp_path: Path) -> None:
    lake = EventLake(spark, str(tmp_path))
    arrive(lake.root, range(26))
    day, now = Period(START, START + DAY_MS), START + 2 * DAY_MS + 2 * HOUR_MS
    compact(lake, Period(START, now), now - DAY_MS)
    hours = {found.hour: found.sealed_at for found in lake.view.manifests(Period(START, now))}
    judged(lake, day, hours, now - DAY_MS)
    later = day_of(day.end)
    compact(lake, Period(START, now), now, {hour_path(START + 5 * HOUR_MS): 1})
    assert changed_days(lake, later, now) == []
    compact(lake, Period(START, now), now, {hour_path(START + 5 * HOUR_MS): 5_000})
    assert is_judged(lake.view, day) is False
    assert changed_days(lake, later, now) == [day]


@pytest.mark.parametrize("at", [START + 20 * HOUR_MS, START + DAY_MS + HOUR_MS])
def test_a_day_that_was_compared_before_all_its_hours_were_over_does_not_count_as_judged(
    spark: SparkSession, tmp_path: Path, at: int
) -> None:
    """Its last hours have no file at all: a page made by then names no problem of theirs."""
    lake = EventLake(spark, str(tmp_path))
    arrive(lake.root, range(20))
    day, over = Period(START, START + DAY_MS), START + DAY_MS + 2 * HOUR_MS
    compact(lake, Period(START, START + 20 * HOUR_MS), over)
    hours = {found.hour: found.sealed_at for found in lake.view.manifests(day)}
    judged(lake, day, hours, at)
    assert not is_judged(lake.view, day)
    judged(lake, day, hours, over)
    assert is_judged(lake.view, day)


def test_a_late_file_that_a_batch_commits_which_is_done_again_has_the_day_judged_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`watch` does a batch that was killed again up to the same instant."""
    lake = EventLake(spark, str(tmp_path))
    arrive(lake.root, range(-1, 26))
    day, batch, now = Period(START, START + DAY_MS), START + DAY_MS + 80 * 60_000, START + DAY_MS + 2 * HOUR_MS
    compact(lake, Period(START - HOUR_MS, batch), batch)
    compact(lake, Period(START - HOUR_MS, now), now)
    seen = {found.hour: found.sealed_at for found in lake.view.manifests(Period(START - HOUR_MS, now))}
    judged(lake, day, seen, now)
    arrive(lake.root, [23], name="late")
    compact(lake, Period(START - HOUR_MS, batch), batch)
    assert not is_judged(LakeView(lake.root), day)


def test_a_sealed_hour_of_which_nothing_is_new_stays_sealed_by_a_batch_of_before(lake: EventLake) -> None:
    before = read_manifest(lake.root, LOST)
    compact(lake, PERIOD, START + 10 * 60_000)
    assert before == read_manifest(lake.root, LOST)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, int] | None]:
    """What CloudWatch answers each night: records by hour, or an error."""
    answers: list[dict[str, int] | None] = []

    def counted(client: object, stream: str, period: Period, *_: object) -> dict[str, int]:
        if (answer := answers.pop(0)) is None:
            raise NotCounted("InternalError")
        return {hour: answer.get(hour, 0) for hour in period.hours()}

    monkeypatch.setattr(compact_job, "records_by_hour", counted)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return answers


def test_a_night_that_has_an_answer_makes_up_for_those_in_which_nobody_said_how_much_came(
    spark: SparkSession, tmp_path: Path, counts: list[dict[str, int] | None]
) -> None:
    """Of 5,000 records of noon one line has arrived."""
    lake, night = EventLake(spark, str(tmp_path)), START + DAY_MS + 2 * HOUR_MS
    arrive(lake.root, range(-1, 26 + 48))
    noon = hour_path(START + 12 * HOUR_MS)
    counts += [None, None, {noon: 5_000}]
    status, whys = zip(*(nightly(lake, night + number * DAY_MS, "--stream", "s") for number in range(3)), strict=True)
    assert status == (1, 1, 1)
    for why in whys[:2]:
        assert any("CloudWatch has not said how much came (s)" in each for each in why)
    assert any(f"{noon}: 1 lines have arrived, of 5000 records" in each for each in whys[2])


def test_nothing_is_counted_of_days_before_the_lakes_first(
    spark: SparkSession, tmp_path: Path, counts: list[dict[str, int] | None]
) -> None:
    lake, night = EventLake(spark, str(tmp_path)), START + DAY_MS + 2 * HOUR_MS
    arrive(lake.root, range(26))
    counts.append({})
    nightly(lake, night, "--stream", "s")
    days = {found.hour[:10] for found in LakeView(lake.root).manifests(Period(0, night))}
    assert days == {hour_path(START + number * DAY_MS)[:10] for number in (-1, 0, 1)}


def test_two_nights_that_failed_are_made_up_for(spark: SparkSession, tmp_path: Path) -> None:
    """Without a period, the daily run judges both days, and the one of them that lacks an hour fails it, and the next."""
    lake = EventLake(spark, str(tmp_path))
    arrive(lake.root, (number for number in range(49) if number != 29))
    days = [Period(START + number * DAY_MS, START + (number + 1) * DAY_MS) for number in range(2)]
    now = instant_text(START + 2 * DAY_MS + 2 * HOUR_MS)
    wanted = arguments.parse(["daily", "--strict", "--lake", lake.root, "--now", now])
    assert JOBS["daily"](lake, wanted) == 1
    assert [is_judged(LakeView(lake.root), day) for day in days] == [True, True]
    assert list(Path(lake.root).glob(f"reports/from={days[0].start}/*/report.html"))
    assert JOBS["daily"](lake, wanted) == 1


def test_a_day_of_which_a_file_is_gone_keeps_no_other_from_being_judged(spark: SparkSession, tmp_path: Path) -> None:
    lake = EventLake(spark, str(tmp_path))
    arrive(lake.root, range(49))
    days = [Period(START + number * DAY_MS, START + (number + 1) * DAY_MS) for number in range(2)]
    noon = START + 12 * HOUR_MS
    SmallLake(lake.root).stream(Way(noon).observed())
    now = days[1].end + 2 * HOUR_MS
    compact(lake, Period(START, now), now)
    found = read_manifest(lake.root, hour_path(noon))
    assert found
    (Path(lake.root) / found.kinds[EventKind.OBSERVED][0].path).unlink()
    with pytest.raises(ExceptionGroup, match="days that could not be judged"):
        JOBS["daily"](lake, arguments.parse(["daily", "--lake", lake.root, "--now", instant_text(now)]))
    assert [is_judged(LakeView(lake.root), day) for day in days] == [False, True]


class StoppedError(Exception):
    """Between a day's claims and its differences."""


class StoppedLake(EventLake):
    def write_named(self, *_: object, **__: object) -> None:
        raise StoppedError


def test_a_day_of_which_only_the_claims_were_written_is_judged_by_the_next_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """And its own claims make no duplicates of what they are about."""
    lake, small, way = observed_after_midnight(spark, tmp_path)
    small.stream(way.observed(), way.envelope(), way.notification(), at=START)
    day, now = Period(START, START + DAY_MS), START + 2 * DAY_MS
    compact(lake, Period(START - DAY_MS, now), now)
    period = ["--from", instant_text(day.start), "--to", instant_text(day.end), "--now", instant_text(now)]
    wanted = arguments.parse(["reconcile", "--lake", lake.root, *period])
    with pytest.raises(StoppedError):
        JOBS["reconcile"](StoppedLake(spark, lake.root), wanted)
    assert (snapshot_days(lake.root, CLAIMS), is_judged(LakeView(lake.root), day)) == ([day], False)
    JOBS["reconcile"](lake, wanted)
    differences = lake.differences(day)
    assert differences
    assert [(row["receipt"], row["difference"]) for row in differences.collect()] == [(str(way.receipt), "missing")]


def observed_after_midnight(spark: SparkSession, folder: Path) -> tuple[EventLake, SmallLake, Way]:
    """A lake whose day has a subscription with a rule, and an envelope that is observed twenty seconds into it."""
    small, way = SmallLake(folder), Way(START + 20_000)
    before = START - 5 * HOUR_MS
    small.stream(subscribed(at=before), ruled(way.key, at=before))
    return EventLake(spark, small.root), small, way


def differences_of(lake: EventLake, day: Period) -> list[tuple[str, str]]:
    now = START + 2 * DAY_MS
    compact(lake, Period(START - DAY_MS, now), now)
    found = reconcile(lake, day, now, DEFAULT).differences
    return [(row["difference"], row["evidence"]) for row in found.collect()]


def test_a_loss_in_a_file_that_was_begun_before_midnight_is_found(spark: SparkSession, tmp_path: Path) -> None:
    lake, small, way = observed_after_midnight(spark, tmp_path)
    small.stream(way.observed(), way.envelope(), way.notification(), at=START - HOUR_MS)
    assert differences_of(lake, Period(START, START + DAY_MS)) == [("missing", "queued, but never tried")]


def test_a_push_in_a_file_that_was_begun_before_midnight_is_no_loss(spark: SparkSession, tmp_path: Path) -> None:
    lake, small, way = observed_after_midnight(spark, tmp_path)
    small.stream(way.observed(), way.envelope(), way.notification(), at=START)
    small.stream(way.push(), at=START - HOUR_MS)
    assert differences_of(lake, Period(START, START + DAY_MS)) == []


def test_an_hour_with_a_line_that_can_not_be_read_is_not_healthy(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever compacted it first has seen it; the daily run finds nothing new to compact."""
    arrive(lake.root, [0], name="unreadable")
    [late] = Path(lake.root).glob("events/*/*/unreadable.jsonl")
    late.write_text('{"version":99,"event":"envelope"}\n')
    compact(lake, Period(START - HOUR_MS, START + DAY_MS), now_ms())
    assert strict(lake) == 1
    assert f"incomplete: {LOST}: 1 lines can't be read" in capsys.readouterr().err


def test_an_hour_with_rules_that_was_never_compacted_is_named_where_it_makes_what_was_right_unexpected(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, small, way = observed_after_midnight(spark, tmp_path)
    small.stream(*way.delivered(), at=START)
    arrive(lake.root, range(-1, 2))
    compact(lake, Period(START - HOUR_MS, START + DAY_MS), START + DAY_MS)
    assert strict(lake) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["unexpected"] == 1
    assert f"incomplete: {hour_path(START - 5 * HOUR_MS)}: files are not compacted" in said.err
    assert "all of this is provisional" in said.err
    compact(lake, Period(START - DAY_MS, START + DAY_MS), START + DAY_MS)
    assert strict(lake) == 0


def test_an_hour_of_which_lines_are_dated_ahead_is_not_healthy(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the clock of ingest, what it observed at half past ten in the evening is of the next day, and was never decided."""
    lake, small, way = observed_after_midnight(spark, tmp_path)
    small.stream(way.observed(), at=START - 2 * HOUR_MS)
    arrive(lake.root, range(-3, 27))
    compact(lake, Period(START - DAY_MS, START + DAY_MS), START + DAY_MS)
    evening = ["--from", instant_text(START - 3 * HOUR_MS), "--to", instant_text(START)]
    assert strict(lake, "reconcile", *evening) == 1
    assert f"incomplete: {hour_path(START - 2 * HOUR_MS)}: 1 lines can't be read" in capsys.readouterr().err


def test_a_strict_run_says_in_its_last_line_which_file_is_damaged(spark: SparkSession, tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    path = small.stream(Way(START).observed())
    (tmp_path / path).write_bytes((tmp_path / path).read_bytes()[:-9])
    lake = EventLake(spark, small.root)
    for job, found in (("compact", "1 files are damaged"), ("reconcile", "hours can't be judged")):
        wanted = arguments.parse([job, "--strict", "--lake", lake.root, *ASKED, *NOW])
        assert JOBS[job](lake, wanted) == 1
        [why] = wanted.findings
        assert found in why
        assert path in why
