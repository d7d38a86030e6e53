"""The API's description: at `/openapi.json`, as a page at `/docs`, and in docs/openapi.json."""

import json
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aws_lambda_powertools.event_handler.openapi.swagger_ui as swagger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer, Server

from api.problems import Kind, Problem

TITLE = "Clarion"
VERSION = "1"
DESCRIPTION = (
    "Push notifications for messengers on decentralised networks. Register a push token, whitelist pairs of sender "
    "and topic, and the statements that these senders sign wake the phone. Everything that goes wrong is told as "
    "problem details (RFC 9457)."
)
VALIDATION_ERROR = "HTTPValidationError"
PATHS = ("/docs", "/openapi.json")
KEPT = "public, max-age=3600"
"""Both are the same for everybody, until the next deployment."""


def document(app: APIGatewayHttpResolver) -> dict[str, Any]:
    text = app.get_openapi_json_schema(
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        servers=[Server(url="/")],
        security_schemes={"bearer": HTTPBearer(bearerFormat="JWT")},
    )
    found: dict[str, Any] = json.loads(text)
    for methods in found["paths"].values():
        for operation in methods.values():
            _drop_resolvers_own(operation["responses"])
    _drop_unused(found)
    return found


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


def serve(app: APIGatewayHttpResolver) -> None:
    """Add the page and the description to the app itself."""

    @cache
    def spec() -> str:
        return json.dumps(document(app))

    @app.get("/openapi.json", include_in_schema=False, compress=True, cache_control=KEPT)
    def described() -> Response[str]:
        return Response(status_code=HTTPStatus.OK, content_type="application/json", body=spec())

    @app.get("/docs", include_in_schema=False, compress=True, cache_control=KEPT)
    def page() -> Response[str]:
        if not app.context["room"].settings.serve_docs:
            raise Problem(Kind.NO_ROUTE)
        return Response(status_code=HTTPStatus.OK, content_type="text/html", body=_page(spec()))


def _page(spec: str) -> str:
    """Everything the page needs is in it: it loads nothing from elsewhere."""
    folder = Path(swagger.__file__).parent
    script, style = ((folder / name).read_text() for name in ("swagger-ui-bundle.min.js", "swagger-ui.min.css"))
    return swagger.generate_swagger_html(spec.replace("</", "<\\/"), script, style, "", None)
