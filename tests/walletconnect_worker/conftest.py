from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.match.scene import credentials
from tests.walletconnect_worker.stage import Clock, Stage, deploy


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Stage]:
    for name, value in credentials().items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        deploy()
        yield Stage.make(clock)
