"""Sends pushes of any apps at once, and again with another credential those whose credential a provider refuses."""

from collections.abc import Sequence
from typing import Protocol

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import (
    Answered,
    CredentialRejected,
    CredentialTooNew,
    FirstAnswer,
    Misconfigured,
    RetryLater,
)
from clarion.providers.transport import Request, Result, Transport


class Push(Protocol):
    """A push ready for its provider: an `ApnsPush` or an `FcmPush`."""

    @property
    def credential(self) -> Credential: ...

    def request(self, bearer: str) -> Request: ...

    def outcome(self, result: Result) -> FirstAnswer: ...


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
