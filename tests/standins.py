"""What tests of several components need for the providers' stand-ins: clocks, keys, and a thread to run them in."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from clarion.providers.transport import Timeouts
from local import keys, tls
from local.provider import StandIn

NOW = 1_800_000_000.0
PATIENT = Timeouts(connect=60.0, answer=60.0)
"""For whoever is answered: no machine is so busy."""
TICK = 0.1
"""Seconds."""


class Clock:
    """Stands still until it is set; UNIX seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


def comes_true(holds: Callable[[], bool], seconds: float = PATIENT.answer / 2) -> bool:
    """Whether it does before anybody's patience ends; only what is at fault takes so long."""
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
    return holds()


@contextmanager
def counted_seconds() -> Iterator[Callable[[], float]]:
    """Seconds since the beginning, but for those in which the machine let none of the process's threads run.

    A tick counts for as long as it is meant to take, however late it comes.
    """
    ticks, ended = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(TICK):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield lambda: ticks * TICK
    finally:
        ended.set()
        thread.join()


class Silenceable:
    """A server whose handler waits for `end_of_silence` before it answers."""

    end_of_silence = threading.Event()
    end_of_silence.set()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Until its end the server takes requests and answers none."""
        self.end_of_silence = threading.Event()
        try:
            yield
        finally:
            self.end_of_silence.set()


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
