"""How a call fails: the codes of Connect and gRPC, and what each problem of the API is among them.

https://connectrpc.com/docs/protocol#error-codes
"""

from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus

from api.problems import Problem, ProblemKind


class CallCode(Enum):
    """A code's HTTP status with Connect, and its number with gRPC; those that something here ends in."""

    INVALID_ARGUMENT = (HTTPStatus.BAD_REQUEST, 3)
    DEADLINE_EXCEEDED = (HTTPStatus.GATEWAY_TIMEOUT, 4)
    NOT_FOUND = (HTTPStatus.NOT_FOUND, 5)
    ALREADY_EXISTS = (HTTPStatus.CONFLICT, 6)
    RESOURCE_EXHAUSTED = (HTTPStatus.TOO_MANY_REQUESTS, 8)
    FAILED_PRECONDITION = (HTTPStatus.BAD_REQUEST, 9)
    UNIMPLEMENTED = (HTTPStatus.NOT_IMPLEMENTED, 12)
    UNAVAILABLE = (HTTPStatus.SERVICE_UNAVAILABLE, 14)
    UNAUTHENTICATED = (HTTPStatus.UNAUTHORIZED, 16)

    def __init__(self, status: HTTPStatus, number: int) -> None:
        self.status = status
        self.number = number

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass
class CallError(Exception):
    """A call that is refused. Neither text nor headers hold anything of what was sent."""

    code: CallCode
    message: str
    headers: dict[str, str] = field(default_factory=dict)


_CODES = {
    ProblemKind.INVALID: CallCode.INVALID_ARGUMENT,
    ProblemKind.UNAUTHENTICATED: CallCode.UNAUTHENTICATED,
    ProblemKind.NO_ROUTE: CallCode.UNIMPLEMENTED,
    ProblemKind.NO_SUBSCRIPTION: CallCode.NOT_FOUND,
    ProblemKind.SUBSCRIPTION_INVALID: CallCode.FAILED_PRECONDITION,
    ProblemKind.TOKEN_TAKEN: CallCode.ALREADY_EXISTS,
    ProblemKind.TOO_LARGE: CallCode.RESOURCE_EXHAUSTED,
    ProblemKind.TOO_MANY_REQUESTS: CallCode.RESOURCE_EXHAUSTED,
    ProblemKind.TOO_MANY_SUBSCRIPTIONS: CallCode.RESOURCE_EXHAUSTED,
    ProblemKind.TOO_MANY_RULES: CallCode.RESOURCE_EXHAUSTED,
    ProblemKind.CONTENDED: CallCode.UNAVAILABLE,
    ProblemKind.UNAVAILABLE: CallCode.UNAVAILABLE,
}
"""Of the problems that the common functions end in."""
_TEXTS = {
    ProblemKind.NO_SUBSCRIPTION: "no such installation: register it first",
    ProblemKind.SUBSCRIPTION_INVALID: "the installation has ended: register it again, then subscribe again",
    ProblemKind.TOKEN_TAKEN: "another client has registered this token",
    ProblemKind.TOO_MANY_SUBSCRIPTIONS: "too many installations",
    ProblemKind.TOO_MANY_RULES: "too many topics",
}
"""Where the API's own words are about subscriptions and rules, which XMTP's clients don't know."""
_FIELDS = {"notificationType": "the delivery mechanism", "token": "the token", "app": "clarion-app"}
"""The API's fields, as XMTP's clients know them."""


def of_problem(problem: Problem) -> CallError:
    kind = problem.kind
    words = [_TEXTS.get(kind, kind.title)]
    if problem.detail and kind not in {ProblemKind.NO_SUBSCRIPTION, ProblemKind.SUBSCRIPTION_INVALID}:
        words.append(problem.detail)
    words += [f"{_FIELDS[error['field']]} {error['rule']}" for error in problem.more.get("errors", [])]
    return CallError(_CODES[kind], ": ".join(words), problem.headers)
