"""How the suite is shared out among pytest-xdist's workers: by file, but for what has something costly in common.

Also the settings of the property tests, and the toy network.
"""

import gc
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from clarion.networks import NETWORKS
from tests import botocore_models, moto_queues, moto_transactions, moto_values, remembered

# The gate runs on busy machines and must say the same twice: no deadlines, no dice.
settings.register_profile("gate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gate")

botocore_models.install()
moto_queues.install()
moto_transactions.install()
moto_values.install()
remembered.install()

DEPLOYED = "tests/system/"
ON_THEIR_OWN = {"tests/system/test_upgrade.py", "tests/system/test_pages.py"}
"""They deploy for themselves, one after the other, beside the others."""
SYNTHESISED = "tests/infra/"
"""They look at the same templates, which each worker makes once."""
LONG = ("tests/crash/", SYNTHESISED, "tests/api/test_schemathesis.py")
"""They take a worker a minute or more, and so come before the many that take seconds."""
LAST = {"tests/system/test_permissions.py"}
"""They judge what the others have made the deployed stack do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first, so that no worker is left alone with it at the end."""

    def place(item: pytest.Item) -> tuple[bool, ...]:
        file = file_of(item.nodeid)
        return file not in ON_THEIR_OWN, not file.startswith(DEPLOYED), file in LAST, not file.startswith(LONG)

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """What has been imported by now stays: the garbage collector need not go through it again and again."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415 - the pipeline's environment lacks it

    class ByDeployment(LoadFileScheduling):  # type: ignore[misc] # it is untyped
        def _split_scope(self, nodeid: str) -> str:
            file = file_of(nodeid)
            if file in ON_THEIR_OWN:
                return "on their own"
            return next((folder for folder in (DEPLOYED, SYNTHESISED) if file.startswith(folder)), file)

    config.option.loadscopereorder = False
    return ByDeployment(config, log)


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a network beside the real ones: see `tests.toy`."""
    monkeypatch.setitem(NETWORKS, "toy", "tests.toy")
    return "toy"
