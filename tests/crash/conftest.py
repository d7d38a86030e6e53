from collections.abc import Iterator

import pytest
from moto import mock_aws

from tests.match.scene import credentials, deploy


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Of each scenario, as moto copies a table for each item of a transaction: what others have left would be copied, too."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in credentials().items():
            patch.setenv(name, value)
        yield deploy()
