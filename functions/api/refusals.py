"""How whatever a route raises becomes problem details."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError

from api import openapi
from api.problems import Problem, ProblemKind
from api.requests import UNAVAILABLE, not_now
from api.worker import current

MOST_ERRORS = 20
"""In one answer."""
LONGEST_NAME = 32
"""Characters of a member that is named in an answer: one that is no field may be anything, even a push token."""
UUID_TEXT = re.compile(r"/[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
TOO_DEEP = "too deep, or a number of too many digits"


def answer(app: APIGatewayHttpResolver, invalid: Mapping[str, ProblemKind]) -> None:
    """Registers what answers each exception; `invalid` is as in `NetworkRoutes`."""
    refused = _RefusedRequest(app, invalid)
    app.not_found(refused.no_address)
    app.exception_handler(RequestValidationError)(refused.invalid_body)
    app.exception_handler(Problem)(_counted)
    app.exception_handler(UnicodeDecodeError)(lambda _: Problem(ProblemKind.MALFORMED, "not UTF-8").response())
    app.exception_handler(RecursionError)(lambda _: Problem(ProblemKind.MALFORMED, TOO_DEEP).response())
    app.exception_handler(list(UNAVAILABLE))(lambda error: _counted(not_now(error)))


@dataclass(frozen=True)
class _RefusedRequest:
    """What the resolver itself refuses: an address, a method or a body."""

    app: APIGatewayHttpResolver
    invalid: Mapping[str, ProblemKind]

    @cached_property
    def methods(self) -> dict[str, str]:
        """The methods that each address takes, as `Allow` lists them."""
        paths = openapi.document(self.app)["paths"]
        return {path: ", ".join(sorted(method.upper() for method in methods)) for path, methods in paths.items()}

    def no_address(self, _: Exception) -> Response[str]:
        path = self.app.current_event.path
        allowed = self.methods.get(path) or self.methods.get(UUID_TEXT.sub("/{subscription_id}", path))
        if allowed is None:
            return Problem(ProblemKind.NO_ROUTE).response()
        return Problem(ProblemKind.WRONG_METHOD, headers={"Allow": allowed}).response()

    def invalid_body(self, error: RequestValidationError) -> Response[str]:
        if any(each["loc"][0] == "path" for each in error.errors()):
            return self.no_address(error)
        errors = [{"field": _path(each["loc"]), "rule": _rule(each)} for each in error.errors()[:MOST_ERRORS]]
        kind = self.invalid.get(self.app.current_event.path, ProblemKind.INVALID)
        return Problem(kind, more={"errors": errors}).response()


def _counted(problem: Problem) -> Response[str]:
    return current().worker.counted(problem).response()


def _path(location: tuple[str | int, ...]) -> str:
    """`("body", "rules", 3, "topic")` becomes `rules[3].topic`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in location[1:])
    return "".join(steps).removeprefix(".") or str(location[0])


def _name(member: str) -> str:
    return member if len(member) <= LONGEST_NAME else "…"


def _rule(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "is no member of this request"
    return str(error["msg"]).removeprefix("Value error, ")
