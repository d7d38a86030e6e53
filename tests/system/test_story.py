"""The demo's scenes, in order: the deployed stack driven as its users would."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from local.lake_copy import LakeCopy, healthy
from local.story import STORY, Cast, Scene
from local.system import System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def cast() -> Cast:
    return Cast()


@pytest.fixture(scope="module", autouse=True)
def begun() -> datetime:
    return datetime.now(UTC)


@pytest.mark.parametrize("scene", STORY, ids=lambda scene: scene.title)
async def test_the_story_goes_as_told(scene: Scene, system: System, cast: Cast) -> None:
    told = await scene.play(system, cast)

    assert told.decisions


async def test_what_the_rooms_told_the_lake_of_it_is_what_should_have_happened(
    system: System, begun: datetime, tmp_path: Path
) -> None:
    lake = LakeCopy(tmp_path)
    await lake.update(system)
    ended, hour = datetime.now(UTC), timedelta(hours=1)
    await lake.job("compact", "--from", (begun - hour).isoformat(), "--to", (ended + hour).isoformat())
    assert list((tmp_path / "observed").rglob("*.parquet"))
    assert not await healthy(lake, begun.isoformat(), ended.isoformat())
