"""How long a local program lives: until a signal to stop, or the end of the process that started it; one at a time."""

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class AlreadyRunningError(Exception):
    """Another program uses the same folder."""


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Raises `AlreadyRunningError`. The lock lies beside the folder, which may be made anew, and ends with the program."""
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunningError(f"it is running already, in {folder}") from None
        yield


def end_of_life() -> asyncio.Event:
    """Set at SIGTERM or SIGINT, and on Linux also when the parent process ends, so that nothing is left behind.

    From the call on these signals no longer kill, so call it before announcing that the program is up.
    """
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    if sys.platform == "linux":
        parent = os.pidfd_open(os.getppid())
        loop.add_reader(parent, end.set)
    return end
