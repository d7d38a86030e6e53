"""How much a call may name, whatever it is written in; what is beyond is a `CallError`."""

from collections.abc import Sized

from api.networks.xmtp.codes import CallCode, CallError

MOST_KEYS = 16
"""Of one topic, in one request; clients give three."""


def check_topics(named: Sized, limit: int) -> None:
    """Before anything is made of them: a message has room for a million."""
    if len(named) > limit:
        raise CallError(CallCode.INVALID_ARGUMENT, f"at most {limit} topics in one call")


def check_keys(named: Sized) -> None:
    """Of one topic."""
    if len(named) > MOST_KEYS:
        raise CallError(CallCode.INVALID_ARGUMENT, f"at most {MOST_KEYS} keys for one topic in one call")
