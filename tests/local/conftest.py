import pytest

from local import keys, tls


class Clock:
    """Stands still until told otherwise."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tls.Localhost:
    return tls.issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def apns_key() -> keys.ApnsKey:
    return keys.generate_apns_key()


@pytest.fixture(scope="session")
def account() -> keys.ServiceAccount:
    return keys.generate_service_account()
