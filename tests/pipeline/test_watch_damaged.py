"""A watch that can't tell how far it has come says so, and judges nothing: docs/operations.md says what to do."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from pipeline.lake.event_lake import EventLake
from pipeline.period import EVER
from pipeline.repair.watch import CHECKPOINT, FoundLosses, Watch, losses_name
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
