"""Sends pushes, and tells a malformed token from a payload of ours that Google takes for no token."""

from collections.abc import Sequence

from clarion.providers.fcm import FcmPush
from clarion.providers.outcomes import Delivered, Outcome, Refused, TokenGone, TokenOrPayload
from clarion.providers.sender import send
from clarion.providers.transport import Transport
from dispatch.pushes import Push


def send_and_probe(transport: Transport, pushes: Sequence[Push]) -> list[Outcome]:
    """The outcomes in the order of the pushes; none is left in doubt between token and payload."""
    outcomes = send(transport, pushes)
    probes = {
        at: push.token_alone()
        for at, (push, outcome) in enumerate(zip(pushes, outcomes, strict=True))
        if isinstance(push, FcmPush) and isinstance(outcome, TokenOrPayload)
    }
    if probes:
        for at, probed in zip(probes, send(transport, list(probes.values())), strict=True):
            outcomes[at] = _verdict(outcomes[at], probed)
    return outcomes


def _verdict(first: Outcome, probed: Outcome) -> Outcome:
    match first, probed:
        case TokenOrPayload(status=status, reason=reason), TokenOrPayload():
            return TokenGone(status=status, reason=reason)
        case TokenOrPayload(status=status, reason=reason), Delivered() | Refused():
            return Refused(status=status, reason=reason)
    return probed
