"""How the routes describe their answers in OpenAPI."""

from collections.abc import Iterable
from http import HTTPStatus
from itertools import groupby
from typing import Any

from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse, OpenAPIResponseHeader
from pydantic import BaseModel, ConfigDict, Field

from api.problems import MEDIA_TYPE, Kind

BEARER = [{"bearer": list[str]()}]
"""The security of every route that needs a client."""

WITHOUT_BODY = (Kind.INVALID, Kind.TOO_MANY_REQUESTS, Kind.UNAVAILABLE)
WITH_BODY = (*WITHOUT_BODY, Kind.MALFORMED, Kind.TOO_LARGE, Kind.UNSUPPORTED_MEDIA_TYPE)

type Headers = dict[str, OpenAPIResponseHeader]

RETRIED = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
RETRY_AFTER: Headers = {
    "Retry-After": {"description": "Seconds to wait before the next request.", "schema": {"type": "integer"}}
}


class FieldError(BaseModel):
    field: str
    rule: str


class ProblemDetails(BaseModel):
    """RFC 9457. `errors` name each field and the rule it breaks."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(pattern="^urn:clarion:problem:")
    title: str
    status: int
    detail: str | None = None
    errors: list[FieldError] | None = None


def answers(
    success: HTTPStatus, model: Any, kinds: Iterable[Kind], headers: Headers | None = None
) -> dict[int, OpenAPIResponse]:
    """A route's own answer and every problem that it may end in; `model` None stands for an empty body."""
    content: dict[str, Any] = {} if model is None else {"application/json": {"model": model}}
    told: dict[int, OpenAPIResponse] = {int(success): {"description": success.phrase, "content": content}}
    if headers:
        told[int(success)]["headers"] = headers
    by_status = groupby(sorted(set(kinds), key=lambda kind: (kind.status, kind.slug)), key=lambda kind: kind.status)
    for status, group in by_status:
        names = "; ".join(f"`{kind.slug}`: {kind.title}" for kind in group)
        told[int(status)] = {"description": names, "content": {MEDIA_TYPE: {"model": ProblemDetails}}}
        if status in RETRIED:
            told[int(status)]["headers"] = RETRY_AFTER
    return told
