"""The wall clock, in the unit of messages, events and tables."""

import time


def now_ms() -> int:
    """UNIX milliseconds."""
    return time.time_ns() // 1_000_000
