from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.match.scene import credentials, deploy


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Of each scenario, with tables of its own."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in credentials().items():
            patch.setenv(name, value)
        yield deploy()
