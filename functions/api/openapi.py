"""The API's description: what routes say of their answers, and the whole at `/openapi.json`, `/docs`, docs/openapi.json."""

import json
from collections.abc import Iterable
from functools import cache
from http import HTTPStatus
from itertools import groupby
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer, Server
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse, OpenAPIResponseHeader
from pydantic import BaseModel, ConfigDict, Field

from api import page
from api.problems import MEDIA_TYPE, Problem, ProblemKind
from api.webhooks import webhooks
from api.worker import current

TITLE = "Clarion"
VERSION = "1"
DESCRIPTION = (
    "Push notifications for messengers on decentralised networks. Register a push token, whitelist pairs of sender "
    "and topic, and the statements that these senders sign wake the phone or the browser. A request may spell its "
    "members in snake case or in camel case. Errors are problem details (RFC 9457)."
)
BEARER_DESCRIPTION = "A client's token, of `/v1/auth/tokens` or of another issuer that the deployment trusts."
VALIDATION_ERROR = "HTTPValidationError"
PATHS = ("/docs", "/openapi.json")
KEPT = "public, max-age=3600"
"""Both are the same for everybody, until the next deployment."""

BEARER = [{"bearer": list[str]()}]
"""The security of every route that needs a client."""

WITHOUT_BODY = (ProblemKind.INVALID, ProblemKind.TOO_MANY_REQUESTS, ProblemKind.UNAVAILABLE)
WITH_BODY = (*WITHOUT_BODY, ProblemKind.MALFORMED, ProblemKind.TOO_LARGE, ProblemKind.UNSUPPORTED_MEDIA_TYPE)

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
    success: HTTPStatus, model: Any, kinds: Iterable[ProblemKind], headers: Headers | None = None
) -> dict[int, OpenAPIResponse]:
    """A route's own answer and every problem that it may end in; `model` None stands for an empty body."""
    content: dict[str, Any] = {} if model is None else {"application/json": {"model": model}}
    found: dict[int, OpenAPIResponse] = {int(success): {"description": success.phrase, "content": content}}
    if headers:
        found[int(success)]["headers"] = headers
    by_status = groupby(sorted(set(kinds), key=lambda kind: (kind.status, kind.slug)), key=lambda kind: kind.status)
    for status, group in by_status:
        names = "; ".join(f"`{kind.slug}`: {kind.title}" for kind in group)
        found[int(status)] = {"description": names, "content": {MEDIA_TYPE: {"model": ProblemDetails}}}
        if status in RETRIED:
            found[int(status)]["headers"] = RETRY_AFTER
    return found


def document(app: APIGatewayHttpResolver, networks: Iterable[str] = ()) -> dict[str, Any]:
    """The routes of `app`, and as webhooks what apps receive of `networks`."""
    text = app.get_openapi_json_schema(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        servers=[Server(url="/")],
        security_schemes={"bearer": HTTPBearer(bearerFormat="JWT", description=BEARER_DESCRIPTION)},
    )
    found: dict[str, Any] = json.loads(text)
    for methods in found["paths"].values():
        for operation in methods.values():
            _drop_resolvers_own(operation["responses"])
    _drop_unused(found)
    found["webhooks"], received = webhooks(networks)
    found["components"]["schemas"] |= received
    return _named_by_title(found)


def _drop_resolvers_own(responses: dict[str, Any]) -> None:
    """The resolver adds a 422 of its own to a route that declares none, and `app` never answers so."""
    if VALIDATION_ERROR in json.dumps(responses.get("422")):
        del responses["422"]


def _drop_unused(found: dict[str, Any]) -> None:
    """Delete the schemas that nothing refers to, and those that only these referred to."""
    schemas = found["components"]["schemas"]
    while unused := [name for name in schemas if f'"#/components/schemas/{name}"' not in json.dumps(found)]:
        for name in unused:
            del schemas[name]


def _named_by_title(found: dict[str, Any]) -> dict[str, Any]:
    """A class that has another name than its schema says so by its title: generated clients know it by that."""
    schemas, text = found["components"]["schemas"], json.dumps(found)
    titles = {name: str(schema.get("title", name)) for name, schema in schemas.items()}
    for name, title in titles.items():
        text = text.replace(f'"#/components/schemas/{name}"', f'"#/components/schemas/{title}"')
    named: dict[str, Any] = json.loads(text)
    named["components"]["schemas"] = dict(
        sorted((titles[name], schema) for name, schema in named["components"]["schemas"].items())
    )
    return named


def serve(app: APIGatewayHttpResolver, networks: Iterable[str]) -> None:
    """Add the page and the description to the app itself."""

    @cache
    def spec() -> str:
        return json.dumps(document(app, networks))

    @app.get("/openapi.json", include_in_schema=False, compress=True, cache_control=KEPT)
    def described() -> Response[str]:
        return Response(status_code=HTTPStatus.OK, content_type="application/json", body=spec())

    @app.get("/docs", include_in_schema=False, compress=True, cache_control=KEPT)
    def interactive() -> Response[str]:
        if not current().worker.settings.serve_docs:
            raise Problem(ProblemKind.NO_ROUTE)
        headers = {"Content-Security-Policy": page.content_security_policy()}
        return Response(status_code=HTTPStatus.OK, content_type="text/html", headers=headers, body=page.html(TITLE))
