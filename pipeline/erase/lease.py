"""One erasure at a time: of two, one would write a file as it had read it, with what the other has removed meanwhile."""

from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import Self

from clarion.clock import now_ms
from pipeline.lake.files import remove
from pipeline.lake.plans import LEASE_MS, RunLease

JOURNALS = "erasures"
LEASE = "lease"
RENEWED_MS = LEASE_MS // 4


class AnotherErasure(Exception):  # noqa: N818 - it says what has happened
    """Somebody else is erasing a client, or was killed while doing so."""


class ErasureLease:
    """For as long as it is entered. Raises `AnotherErasure` if somebody else holds it, or has got it since."""

    def __init__(self, root: str, clock: Callable[[], int] = now_ms) -> None:
        self._root = root
        self._clock = clock
        self._lease = RunLease(root, LEASE, folder=JOURNALS, clock=clock)
        self._renewed_at = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        if self._lease.take() is None:
            seconds = LEASE_MS // 1000
            raise AnotherErasure(f"another erasure is at work; if it was killed, one can begin {seconds} seconds later")
        self._renewed_at = self._clock()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Nobody else takes what has just been renewed.
        if self._lease.advance(0):
            remove(self._root, [f"{JOURNALS}/{LEASE}"])

    def renew(self) -> None:
        """Before each file that is read or written: most of these calls do nothing."""
        with self._lock:
            if self._clock() < self._renewed_at + RENEWED_MS:
                return
            if not self._lease.advance(0):
                raise AnotherErasure("another erasure has begun, since this one was held up for too long: run it again")
            self._renewed_at = self._clock()
