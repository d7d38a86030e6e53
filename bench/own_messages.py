"""Whether a message of XMTP is a subscriber's own, by three keys that all have to be tried."""

import hmac
from collections.abc import Callable

from clarion.networks import XMTP, network
from tests.xmtp import Inbox

MOST_MICROSECONDS = 10.0
"""Of the processor's time, for a subscriber of a message of `MESSAGE_BYTES`: by `bench.match`, where nothing else runs."""
MESSAGE_BYTES = 600
_AT = 1_800_000_000
_KEYS = 3
_KEY = bytes(32)
_MESSAGE = bytes(MESSAGE_BYTES)


def check() -> Callable[[], object]:
    """One check. It reads the condition, as match does for each subscriber."""
    xmtp = network(XMTP)
    envelope, rule = xmtp.decode(Inbox(b"bo").message(_AT, bytes(MESSAGE_BYTES))), Inbox(b"alix").rule(_AT)
    return lambda: xmtp.wants(envelope, rule, _AT * 1000)


def check_bare() -> None:
    """What no check can do without: a HMAC by each key."""
    for _ in range(_KEYS):
        hmac.digest(_KEY, _MESSAGE, "sha256")
