"""How long a local program lives: until a signal to stop, or the end of the process that started it."""

import asyncio
import os
import signal
import sys


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
