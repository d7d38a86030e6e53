"""What was once called healthy although nobody could know: each has to end a strict run with 1, and to be named."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from clarion.events import LimitsLoaded
from clarion.networks import STATEMENTS
from pipeline import arguments
from pipeline.cli import JOBS, main
from pipeline.commits import LakeView, manifest_path, read_manifest
from pipeline.compact import compact
from pipeline.due import is_judged
from pipeline.lake import EventLake
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, instant_text
from tests.pipeline.conftest import copied
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
    """An hour and the one after, in which nothing has happened but what always does."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("healthy")))
    arrive(lake.root, range(2))
    compact(lake, Period(START, START + DAY_MS))
    return lake


@pytest.fixture
def lake(healthy: EventLake, tmp_path: Path) -> EventLake:
    return copied(healthy, tmp_path)


def strict(lake: EventLake, job: str = "reconcile", *words: str) -> int:
    return JOBS[job](lake, arguments.parse([job, "--strict", "--lake", lake.root, *(words or ASKED), *NOW]))


def test_a_lake_that_has_all_of_a_period_is_healthy(healthy: EventLake) -> None:
    assert strict(healthy) == 0


def test_an_absent_lake_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["daily", "--strict", "--lake", str(tmp_path / "absent")]) == 1
    assert "there is no lake" in capsys.readouterr().err


def test_a_removed_hour_is_not_healthy(lake: EventLake, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(lake.root) / manifest_path(LOST)).unlink()
    shutil.rmtree(next(Path(lake.root).glob(f"events/*/hour={LOST[-2:]}")))
    assert strict(lake) == 1
    printed = capsys.readouterr()
    assert f"incomplete: {LOST}: nothing has arrived" in printed.err
    assert printed.out == '{"incomplete": 1}\n'


def test_an_hour_of_which_a_data_file_is_gone_is_named_before_it_is_read(
    lake: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    found = read_manifest(lake.root, LOST)
    assert found
    (Path(lake.root) / found.files[0].path).unlink()
    with pytest.raises(AnalysisException):
        strict(lake)
    assert f"incomplete: {LOST}: 1 data files are gone" in capsys.readouterr().err


def test_a_replay_sends_nothing_of_what_may_only_be_missing_here(
    lake: EventLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("ENVELOPES", "APNS", "VOIP", "FCM", "WEBPUSH", "WEBHOOK"):
        monkeypatch.setenv(f"CLARION_{queue}_QUEUE_URL", "https://sqs.example.org/queue")
    arrive(lake.root, [0], name="late")
    assert JOBS["replay"](lake, arguments.parse(["replay", "--lake", lake.root, *ASKED, *NOW])) == 1
    assert "nothing is sent" in capsys.readouterr().err


def test_two_nights_that_failed_are_made_up_for(spark: SparkSession, tmp_path: Path) -> None:
    """Without a period, the daily run judges both days, and the one of them that lacks an hour fails it."""
    lake = EventLake(spark, str(tmp_path))
    arrive(lake.root, (number for number in range(49) if number != 5))
    days = [Period(START + number * DAY_MS, START + (number + 1) * DAY_MS) for number in range(2)]
    now = instant_text(START + 2 * DAY_MS + 2 * HOUR_MS)
    wanted = arguments.parse(["daily", "--strict", "--lake", lake.root, "--now", now])
    assert JOBS["daily"](lake, wanted) == 1
    assert [is_judged(LakeView(lake.root), day) for day in days] == [True, True]
    assert list(Path(lake.root).glob(f"reports/from={days[0].start}/*/report.html"))
