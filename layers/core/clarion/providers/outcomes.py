"""What a provider's answer means for us. No outcome carries a token, a key or a payload.

Some answers leave in doubt what is at fault. They are no outcomes, until another answer or the app's other pushes
decide.
"""

from dataclasses import dataclass
from typing import ClassVar

from clarion.decisions import PushDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The provider took the push. `provider_id` is the name that it knows the push by."""

    decision: ClassVar = PushDecision.DELIVERED
    status: int
    provider_id: str | None = None
    reason: None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGone:
    """The token is dead, since `since` (UNIX milliseconds) if the provider says so.

    Not `certain` if the provider's answer may be about the app that was tried with the token: see `TokenOrApp`.
    """

    decision: ClassVar = PushDecision.TOKEN_GONE
    status: int
    reason: str
    since: int | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLater:
    """The same push may succeed later: after `after` seconds if the provider says so. No status: no answer came."""

    decision: ClassVar = PushDecision.RETRY
    status: int | None
    reason: str
    after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The push is not tried again, and its token is not known to be dead.

    `given_up` if its provider has not refused it: dispatch has tried it in vain for too long, or can make nothing of it.
    `token_fault` if the token alone may be the cause, as of one that a client made up.
    """

    decision: ClassVar = PushDecision.REFUSED
    status: int | None
    reason: str
    given_up: bool = False
    token_fault: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOrPayload:
    """Either the token is malformed, or our payload or project is; the answer to the token alone rules out the payload."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOrApp:
    """Either the token is at fault or our configuration is; the answers to the app's other pushes show which."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Misconfigured:
    """A person must correct a key, an identifier or a permission; `whole_app` unless one token may be the cause."""

    decision: ClassVar = PushDecision.MISCONFIGURED
    status: int | None
    reason: str
    whole_app: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRejected:
    """Our credential was not accepted. It may merely have aged or been rotated: renew it once and try again."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialTooNew:
    """The provider has taken another of our credentials so recently that it takes no new one yet."""

    status: int
    reason: str
    after: float | None = None


type Outcome = Delivered | TokenGone | RetryLater | Refused | Misconfigured
type Answered = Outcome | TokenOrPayload | TokenOrApp
type FirstAnswer = Answered | CredentialRejected | CredentialTooNew
