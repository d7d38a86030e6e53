"""Sends pushes of any apps at once, and again with another credential those whose credential a provider refuses.

Where an answer leaves open whether the token or our payload is malformed, a probe without the payload decides.
"""

from collections.abc import Sequence
from typing import Protocol

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import (
    Answered,
    CredentialRejected,
    CredentialTooNew,
    Delivered,
    FirstAnswer,
    Misconfigured,
    Outcome,
    Refused,
    RetryLater,
    TokenOrApp,
    TokenOrPayload,
)
from clarion.providers.transport import Request, Result, Transport


class Push(Protocol):
    """A push ready for its provider: an `ApnsPush`, an `FcmPush` or a `WebPushPush`."""

    @property
    def credential(self) -> Credential: ...

    def request(self, bearer: str) -> Request: ...

    def outcome(self, result: Result) -> FirstAnswer: ...

    def without_payload(self) -> "Push | None":
        """One that is not delivered: what the provider refuses of it is the token. None where no answer needs it."""


def send_and_probe(transport: Transport, pushes: Sequence[Push]) -> list[Outcome | TokenOrApp]:
    """The answers in the order of the pushes; none is left in doubt between token and payload."""
    answers = send(transport, pushes)
    probes = {
        at: probe
        for at, (push, answer) in enumerate(zip(pushes, answers, strict=True))
        if isinstance(answer, TokenOrPayload) and (probe := push.without_payload())
    }
    probed = dict(zip(probes, send(transport, list(probes.values())), strict=True)) if probes else {}
    return [_without_doubt(answer, probed.get(at)) for at, answer in enumerate(answers)]


def send(transport: Transport, pushes: Sequence[Push]) -> list[Answered]:
    """The answers in the order of the pushes, after a second attempt at most.

    A credential that is rejected twice is misconfigured; one that is too new may be taken later.
    """
    outcomes = _attempt(transport, pushes)
    refusals = {
        at: outcome for at, outcome in enumerate(outcomes) if isinstance(outcome, CredentialRejected | CredentialTooNew)
    }
    if refusals:
        by_credential = {pushes[at].credential: refusal for at, refusal in refusals.items()}
        changed = {credential for credential, refusal in by_credential.items() if _change(credential, refusal)}
        again = [at for at in refusals if pushes[at].credential in changed]
        for at, outcome in zip(again, _attempt(transport, [pushes[at] for at in again]), strict=True):
            outcomes[at] = _latter(refusals[at], outcome)
    return [_final(outcome) for outcome in outcomes]


def _attempt(transport: Transport, pushes: Sequence[Push]) -> list[FirstAnswer]:
    bearers = {credential: credential.bearer() for credential in {push.credential for push in pushes}}
    ready = [(push, bearer) for push in pushes if isinstance(bearer := bearers[push.credential], str)]
    results = iter(transport.send(push.request(bearer) for push, bearer in ready))
    return [
        push.outcome(next(results)) if isinstance(bearer := bearers[push.credential], str) else bearer
        for push in pushes
    ]


def _change(credential: Credential, refusal: CredentialRejected | CredentialTooNew) -> bool:
    return credential.renew() if isinstance(refusal, CredentialRejected) else credential.alternate()


def _latter(first: CredentialRejected | CredentialTooNew, second: FirstAnswer) -> FirstAnswer:
    """The second, unless it says no more than that the credential shown instead of one too new is too old."""
    return first if isinstance(first, CredentialTooNew) and isinstance(second, CredentialRejected) else second


def _final(outcome: FirstAnswer) -> Answered:
    match outcome:
        case CredentialRejected(status=status, reason=reason):
            return Misconfigured(status=status, reason=reason)
        case CredentialTooNew(status=status, reason=reason, after=after):
            return RetryLater(status=status, reason=reason, after=after)
    return outcome


def _without_doubt(first: Answered, probed: Answered | None) -> Outcome | TokenOrApp:
    """The provider refuses the token alone if it is malformed, and any token if our project id is wrong."""
    if not isinstance(first, TokenOrPayload):
        return first
    match probed:
        case TokenOrPayload():
            return TokenOrApp(status=first.status, reason=first.reason)
        case None | Delivered() | Refused():
            return Refused(status=first.status, reason=first.reason)
    return probed
