from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.match.scene import credentials, deploy


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in credentials().items():
            patch.setenv(name, value)
        yield deploy()
