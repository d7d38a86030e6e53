"""How long an invocation takes: the processor's time measured, the waiting added up. Import it before the first client.

AWS is emulated in the same process. What the emulation takes of the processor is left out, and so are the connection
and its TLS. No real AWS answers, so each answer is taken to come after as long as `WAITS` says.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import botocore.handlers
from botocore.model import OperationModel

WAITS = {"dynamodb": 4, "sqs": 8, "firehose": 12, "secretsmanager": 10}
"""Milliseconds until a service answers. Assumed: AWS promises none, and nothing here measures them."""
PROVIDER_WAIT = 50
"""Milliseconds until a provider answers. Assumed, as above."""


@dataclass
class Spent:
    """Milliseconds of one invocation."""

    waiting: float = 0
    processor: float = 0


class Stopwatch:
    def __init__(self) -> None:
        self.waited = 0.0
        """Milliseconds, so far."""
        self._emulated = self._since = 0.0
        self._runs = False

    @contextmanager
    def running(self) -> Iterator[Spent]:
        """What is spent within, known at its end."""
        spent = Spent()
        self._runs = True
        waited, emulated, started = self.waited, self._emulated, time.process_time()
        try:
            yield spent
        finally:
            self._runs = False
        spent.waiting = self.waited - waited
        spent.processor = 1000 * (time.process_time() - started - (self._emulated - emulated))

    def begin_emulation(self, **_: object) -> None:
        self._since = time.process_time()

    def end_emulation(self, **_: object) -> None:
        self._emulated += time.process_time() - self._since

    def wait(self, model: OperationModel, **_: object) -> None:
        if self._runs:
            self.waited += WAITS[model.service_model.service_name]


stopwatch = Stopwatch()
# First of all: the emulation answers in a handler of the same event.
botocore.handlers.BUILTIN_HANDLERS.insert(0, ("before-send", stopwatch.begin_emulation))
botocore.handlers.BUILTIN_HANDLERS += [
    ("before-parse", stopwatch.end_emulation),
    ("after-call", stopwatch.wait),
]


class SideBySide(Executor):
    """Does one thing after the other, but has them all wait from the same moment, as threads would."""

    def map(self, fn: Callable[..., Any], *tasks: Iterable[Any], **_: object) -> Iterator[Any]:
        begun = latest = stopwatch.waited
        results = []
        for arguments in zip(*tasks, strict=True):
            stopwatch.waited = begun
            results.append(fn(*arguments))
            latest = max(latest, stopwatch.waited)
        stopwatch.waited = latest
        return iter(results)
