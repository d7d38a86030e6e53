from collections.abc import Iterator

import pytest
from moto import mock_aws

from match.settings import MatchSettings
from match.worker import MatchClients
from tests.match.scene import PREFIX, InTurn, Scene, credentials, deploy


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """A deployment's resources, and the variables that name them."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in credentials().items():
            patch.setenv(name, value)
        yield deploy()


@pytest.fixture
def settings(environment: dict[str, str]) -> MatchSettings:
    return MatchSettings.from_environment(environment)


@pytest.fixture(scope="module")
def clients(environment: dict[str, str]) -> MatchClients:
    # moto keeps no conditions when several threads call it at once.
    return MatchClients.make(PREFIX)._replace(executor=InTurn())


@pytest.fixture
def scene(settings: MatchSettings, clients: MatchClients) -> Iterator[Scene]:
    scene = Scene(settings, clients)
    yield scene
    scene.pushes()
    scene.again()
