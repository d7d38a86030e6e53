"""Sends pushes of any apps at once, and renews a credential that a provider rejects."""

from collections.abc import Sequence
from typing import Protocol

from clarion.providers.credentials import Credential
from clarion.providers.outcomes import CredentialRejected, FirstOutcome, Misconfigured, Outcome
from clarion.providers.transport import Request, Result, Transport


class Push(Protocol):
    """A push ready for its provider: an `ApnsPush` or an `FcmPush`."""

    @property
    def credential(self) -> Credential: ...

    def request(self, bearer: str) -> Request: ...

    def outcome(self, result: Result) -> FirstOutcome: ...


def send(transport: Transport, pushes: Sequence[Push]) -> list[Outcome]:
    """The outcomes in the order of the pushes. A rejected credential is renewed once; then it is misconfigured."""
    outcomes = _attempt(transport, pushes)
    rejected = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, CredentialRejected)]
    if rejected:
        renewed = {credential for credential in {pushes[at].credential for at in rejected} if credential.renew()}
        again = [at for at in rejected if pushes[at].credential in renewed]
        for at, outcome in zip(again, _attempt(transport, [pushes[at] for at in again]), strict=True):
            outcomes[at] = outcome
    return [_final(outcome) for outcome in outcomes]


def _attempt(transport: Transport, pushes: Sequence[Push]) -> list[FirstOutcome]:
    bearers = {credential: credential.bearer() for credential in {push.credential for push in pushes}}
    ready = [(push, bearer) for push in pushes if isinstance(bearer := bearers[push.credential], str)]
    results = iter(transport.send(push.request(bearer) for push, bearer in ready))
    return [
        push.outcome(next(results)) if isinstance(bearer := bearers[push.credential], str) else bearer
        for push in pushes
    ]


def _final(outcome: FirstOutcome) -> Outcome:
    if isinstance(outcome, CredentialRejected):
        return Misconfigured(status=outcome.status, reason=outcome.reason)
    return outcome
