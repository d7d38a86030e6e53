"""Whether a message of XMTP is a subscriber's own, by three keys that all have to be tried."""

import timeit
from collections.abc import Callable
from time import process_time

from clarion.networks import XMTP, network
from tests.xmtp import Inbox

MOST_MICROSECONDS = 10.0
"""Of the processor's time, for a subscriber of a message of `MESSAGE_BYTES`."""
MESSAGE_BYTES = 600
_AT = 1_800_000_000
_CALLS, _TURNS = 40, 500


def check() -> Callable[[], object]:
    """One check. It reads the condition, as match does for each subscriber."""
    xmtp = network(XMTP)
    envelope, rule = xmtp.decode(Inbox(b"bo").message(_AT, bytes(MESSAGE_BYTES))), Inbox(b"alix").rule(_AT)
    return lambda: xmtp.wants(envelope, rule, _AT * 1000)


def best_microseconds() -> float:
    """The best of many short turns, by the processor's time, which no other process takes part in."""
    work = check()
    return min(timeit.repeat(work, timer=process_time, repeat=_TURNS, number=_CALLS)) / _CALLS * 1e6
