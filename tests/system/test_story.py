"""The demo's scenes, in order: the deployed stack driven as its users would."""

import pytest

from local.story import STORY, Cast, Scene
from local.system import System

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module")
def cast() -> Cast:
    return Cast()


@pytest.mark.parametrize("scene", STORY, ids=lambda scene: scene.title)
async def test_the_story_goes_as_told(scene: Scene, system: System, cast: Cast) -> None:
    told = await scene.play(system, cast)

    assert told.decisions
