"""How a request is refused: `{"reason": …}` and a status. Nothing in it is of what was sent."""

from dataclasses import dataclass, field
from http import HTTPStatus

from api.problems import Problem


@dataclass
class DappError(Exception):
    """A request that is refused; the reason is for people."""

    status: HTTPStatus
    reason: str
    headers: dict[str, str] = field(default_factory=dict)


def not_found(reason: str = "there is nothing at this address") -> DappError:
    return DappError(HTTPStatus.NOT_FOUND, reason)


def domain_taken() -> DappError:
    return DappError(HTTPStatus.CONFLICT, "another project has this domain")


def unprocessable(reason: str) -> DappError:
    return DappError(HTTPStatus.UNPROCESSABLE_ENTITY, reason)


def of_problem(problem: Problem) -> DappError:
    reason = ": ".join(filter(None, [problem.kind.title, problem.detail]))
    return DappError(problem.kind.status, reason, problem.headers)
