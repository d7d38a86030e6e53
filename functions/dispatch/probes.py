"""Sends pushes, and rules out our payload where FCM's answer leaves open whether it or the token is malformed."""

from collections.abc import Sequence

from clarion.providers.fcm import FcmPush
from clarion.providers.outcomes import Answered, Delivered, Outcome, Refused, TokenOrApp, TokenOrPayload
from clarion.providers.sender import send
from clarion.providers.transport import Transport
from dispatch.pushes import Push

type Probed = Outcome | TokenOrApp


def send_and_probe(transport: Transport, pushes: Sequence[Push]) -> list[Probed]:
    """The answers in the order of the pushes; none is left in doubt between token and payload."""
    answers = send(transport, pushes)
    probes = {
        at: push.token_alone()
        for at, (push, answer) in enumerate(zip(pushes, answers, strict=True))
        if isinstance(push, FcmPush) and isinstance(answer, TokenOrPayload)
    }
    probed = dict(zip(probes, send(transport, list(probes.values())), strict=True)) if probes else {}
    return [_resolve(answer, probed.get(at)) for at, answer in enumerate(answers)]


def _resolve(first: Answered, probed: Answered | None) -> Probed:
    """FCM refuses the token alone if it is malformed, and any token if our project id is wrong."""
    if not isinstance(first, TokenOrPayload):
        return first
    match probed:
        case TokenOrPayload():
            return TokenOrApp(status=first.status, reason=first.reason)
        case None | Delivered() | Refused():
            return Refused(status=first.status, reason=first.reason)
    return probed
