"""The deployed stack in the emulator, driven as its users would: the demo's scenes, in order, on one deployment."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from local.story import STORY, Cast, Scene
from local.system import System, running

pytestmark = [pytest.mark.system, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def cast() -> Cast:
    return Cast()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system() -> AsyncIterator[System]:
    async with running("system-test", lambda _: None) as system:
        yield system


@pytest.mark.parametrize("scene", STORY, ids=lambda scene: scene.title)
async def test_the_story_goes_as_told(scene: Scene, system: System, cast: Cast) -> None:
    told = await scene.play(system, cast)

    assert told.decisions
