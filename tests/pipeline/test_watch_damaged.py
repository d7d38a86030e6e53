"""A watch that can't tell how far it has come says so, and judges nothing: docs/operations.md says what to do."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.lake.event_lake import EventLake
from pipeline.period import CLOCK_SKEW_MS
from pipeline.repair.watch import CHECKPOINT, FoundLosses, Watch
from pipeline.spark.ending import JobStopped, reason
from pipeline.terms import Terms
from tests.pipeline.conftest import copied
from tests.pipeline.small_lake import START, SmallLake, Way

type Damage = Callable[[bytes], bytes]
DAMAGES: dict[str, Damage] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "a little short": lambda content: content[:-3],
    "other bytes": lambda _: b"\x00\xff and no text\n\n",
}


def judged(lake: EventLake, until: int) -> list[FoundLosses]:
    reported: list[FoundLosses] = []
    Watch(EventLake(lake.spark, lake.root), Terms(), 0, reported.append).run(until)
    return reported


@pytest.fixture(scope="module")
def watched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> EventLake:
    """With the checkpoint of one batch."""
    lake = EventLake(spark, str(tmp_path_factory.mktemp("watched") / "lake"))
    SmallLake(lake.root).stream(Way().observed())
    assert len(judged(lake, START)) == 1
    return lake


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["metadata", "offsets/0", "commits/0"])
def test_a_checkpoint_that_is_damaged_ends_the_watch_with_a_reason_and_stays_as_it_is(
    watched: EventLake, tmp_path: Path, name: str, damage: str
) -> None:
    """Whatever Spark makes of it: it must not go on as if nothing had been judged."""
    lake = copied(watched, tmp_path)
    file = Path(lake.root) / CHECKPOINT / name
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    if name == "offsets/0" and damage == "a little short":
        # As a batch that was not finished: it is done again from here.
        (Path(lake.root) / CHECKPOINT / "commits" / "0").unlink()
    with pytest.raises(JobStopped) as raised:
        judged(lake, START + 1)
    why = reason(raised.value)
    assert why
    assert why.startswith(f"{CHECKPOINT} can't be read or written: ")
    assert why.endswith("; unless that passes, remove it from the lake")
    assert "\n" not in why
    assert file.read_bytes() == DAMAGES[damage](whole)
    shutil.rmtree(file.parents[0] if name == "metadata" else file.parents[1])
    assert len(judged(lake, START + 1)) == 1


def test_a_checkpoint_that_is_ahead_of_the_time_ends_the_watch_with_a_reason(
    watched: EventLake, tmp_path: Path
) -> None:
    lake = copied(watched, tmp_path)
    with pytest.raises(JobStopped, match=r"it has come to .*, which is ahead of the time; .* remove it") as raised:
        judged(lake, START - CLOCK_SKEW_MS - 1)
    assert "\n" not in str(raised.value)


def test_a_checkpoint_that_cannot_be_written_ends_the_watch_with_a_reason(lake: EventLake) -> None:
    SmallLake(lake.root).stream(Way().observed())
    (Path(lake.root) / "checkpoints").touch()
    with pytest.raises(JobStopped) as raised:
        judged(lake, START)
    why = reason(raised.value)
    assert why
    assert ("Parent path is not a directory" in why, "\n" in why) == (True, False)
