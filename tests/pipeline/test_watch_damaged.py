"""A watch that can't tell how far it has come says so, and judges nothing: docs/operations.md says what to do."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from pipeline.lake.event_lake import EventLake
from pipeline.period import EVER
from pipeline.repair.watch import CHECKPOINT, FoundLosses, Watch, losses_name
from pipeline.spark.ending import reason
from pipeline.terms import Terms
from tests.pipeline.small_lake import START, SmallLake, Way


def test_a_checkpoint_that_cannot_be_read_ends_the_watch_and_stays_as_it_is(lake: EventLake) -> None:
    SmallLake(lake.root).stream(Way().observed())
    offset = Path(lake.root) / CHECKPOINT / "offsets" / "0"
    offset.parent.mkdir(parents=True)
    offset.touch()
    reported: list[FoundLosses] = []
    with pytest.raises(StreamingQueryException, match="Incomplete log file"):
        Watch(lake, Terms(), 0, reported.append).run(START)
    assert reported == []
    assert offset.read_text() == ""
    assert lake.view.manifests(EVER) == []
    assert not (Path(lake.root) / losses_name(START)).exists()


def test_a_checkpoint_that_cannot_be_written_ends_the_watch_with_a_reason(lake: EventLake) -> None:
    SmallLake(lake.root).stream(Way().observed())
    (Path(lake.root) / "checkpoints").touch()
    with pytest.raises(Py4JJavaError) as raised:
        Watch(lake, Terms(), 0, lambda _: None).run(START)
    why = reason(raised.value)
    assert why
    assert ("checkpoints" in why, "\n" in why) == (True, False)
