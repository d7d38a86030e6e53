"""What tests of several components need for the providers' stand-ins: a clock, keys, and a thread to run them in."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local import keys, tls
from local.provider import StandIn

NOW = 1_800_000_000.0


class Clock:
    """Stands still until it is set; UNIX seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@contextmanager
def running[Server: StandIn](server: Server) -> Iterator[Server]:
    """In a thread of its own, as the transport blocks the one it is called in."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    there(server.__aenter__())
    try:
        yield server
    finally:
        there(server.__aexit__(None, None, None))
        there(asyncio.sleep(0))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture(scope="session")
def localhost(tmp_path_factory: pytest.TempPathFactory) -> tls.Localhost:
    return tls.issue(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def apns_key() -> keys.ApnsKeyPair:
    return keys.generate_apns_key()


@pytest.fixture(scope="session")
def account() -> keys.ServiceAccount:
    return keys.generate_service_account()
