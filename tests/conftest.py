"""How the suite is shared out among pytest-xdist's workers: by file, but for what has one deployment in common."""

from typing import Any

import pytest

DEPLOYED = "tests/system/"
ON_THEIR_OWN = {"tests/system/test_upgrade.py"}
"""They deploy for themselves, beside the others."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - the pipeline's environment lacks it

    class ByDeployment(LoadFileScheduling):  # type: ignore[misc] # it is untyped
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return DEPLOYED if file.startswith(DEPLOYED) and file not in ON_THEIR_OWN else file

    return ByDeployment(config, log)
