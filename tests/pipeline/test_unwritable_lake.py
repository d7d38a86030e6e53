"""A lake that a job may not write to ends it with the reason in one line, whatever it was about to write first.

That a file is where a folder has to be stands for it: permissions don't bind whoever runs tests as root.
"""

from pathlib import Path

import pytest

from pipeline import arguments
from pipeline.__main__ import main
from pipeline.cli import JOBS
from pipeline.compaction.compact import compact
from pipeline.generator.writing import declare_complete
from pipeline.lake.event_lake import EventLake
from pipeline.period import DAY_MS, HOUR_MS, Period, instant_text
from pipeline.spark.ending import reason
from tests.pipeline.small_lake import CLIENT, SmallLake, Way, ruled, subscribed

START = 1_790_000_000_000 // DAY_MS * DAY_MS
DAY, NOW = Period(START, START + DAY_MS), START + 2 * DAY_MS
LOST = Way(START + HOUR_MS)
WRITES = [
    ("generate", "events", []),
    ("generate", "observed", ["--compacted"]),
    ("compact", "observed", []),
    ("compact", "manifests", []),
    ("reconcile", "differences", []),
    ("replay", "replays", []),
    ("report", "reports", []),
    ("daily", "snapshots", ["--assume-quiet"]),
    ("watch", "checkpoints", ["--once"]),
]


@pytest.fixture
def filled(lake: EventLake) -> EventLake:
    """With a loss that no job has read yet."""
    small = SmallLake(lake.root)
    small.stream(subscribed(at=START), ruled(LOST.key, at=START), at=START)
    small.stream(LOST.observed())
    return lake


def ended(lake: EventLake, job: str, words: list[str]) -> Exception:
    period = [] if job == "watch" else ["--from", instant_text(DAY.start), "--to", instant_text(DAY.end)]
    wanted = arguments.parse([job, "--lake", lake.root, *period, *words])
    wanted.now = NOW
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is, its reason is looked at
        JOBS[job](lake, wanted)
    return raised.value


@pytest.mark.parametrize(("job", "folder", "words"), WRITES)
def test_a_job_that_cannot_write_is_ended_by_a_reason(
    filled: EventLake, job: str, folder: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLARION_ENVELOPES_QUEUE_URL", "http://127.0.0.1:1/nobody/asks")
    root = Path(filled.root)
    if job == "generate":
        filled = EventLake(filled.spark, str(root / "new"))
        root = Path(filled.root)
        root.mkdir()
        words = [*words, "--statements", "10", "--rules", "10", "--messages", "0"]
    elif job in {"reconcile", "replay", "report"}:
        compact(filled, Period(START - HOUR_MS, NOW), NOW)
        declare_complete(filled.root, Period(START - HOUR_MS, NOW).hours(), NOW)
        filled.view.refresh()
    (root / folder).write_text("no folder")
    why = reason(ended(filled, job, words))
    assert why
    assert (folder in why, "\n" in why) == (True, False)


def test_no_day_is_made_up_over_one_that_is_there(filled: EventLake) -> None:
    before = dict(SmallLake(filled.root).texts())
    why = reason(ended(filled, "generate", []))
    assert why
    assert "has days already" in why
    assert dict(SmallLake(filled.root).texts()) == before


def test_an_erasure_that_cannot_write_is_ended_by_a_reason(
    filled: EventLake, capsys: pytest.CaptureFixture[str]
) -> None:
    (Path(filled.root) / "erasures").write_text("no folder")
    assert main(["erase", CLIENT.hex(), "--lake", filled.root]) == 4
    [line] = [line for line in capsys.readouterr().err.splitlines() if "can't be" in line]
    assert line.startswith("» the lake can't be read or written: ")
    assert "erasures" in line
