"""The resolver: who may pass, what a body must be, and how every refusal becomes problem details.

API Gateway answers a request that its authorizer refuses with a body of its own. So the authorizer lets everyone
through and says in its context who it is; here, whoever is nobody is refused before anything else is looked at.
"""

import json
import time
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from hmac import compare_digest
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from api import openapi, quotas, sign_in
from api.authorization import SharedSecret
from api.networks import routes_of
from api.problems import Problem, ProblemKind
from api.quotas import Rate
from api.worker import ApiRequest, ApiWorker, answering
from clarion.secrets import Secret, SecretError
from clarion.tables import error_code

type Event = Mapping[str, Any]
"""A request, as API Gateway's payload 2.0."""
type Unavailable = PynamoDBException | BotoCoreError | ClientError | SecretError

OPEN = ("/v1/auth/", *openapi.PATHS)
"""What needs no client: everything else does, whatever its address."""
PREFLIGHT = "OPTIONS /{proxy+}"
"""The route, as `infra.api` has it, of what browsers ask before a page's request: API Gateway adds the words to it."""
ORIGIN_HEADER = "x-clarion-origin"
"""As `infra.edge` has CloudFront send it."""
JSON = "application/json"
WITH_BODY = {"POST", "PUT", "DELETE"}
REQUEST_SECONDS = 20
"""After so long a request begins nothing new: what is under way then may take another 6 s, and API Gateway gives it 30."""
MOST_ERRORS = 20
"""In one answer."""
TOO_DEEP = "too deep, or a number of too many digits"

logger = Logger(service="api")


def handle(event: Event, context: LambdaContext, worker: ApiWorker) -> dict[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    until = time.monotonic() + REQUEST_SECONDS
    try:
        _check_origin(event, worker.origin)
        if event.get("routeKey") == PREFLIGHT:
            return {"statusCode": HTTPStatus.NO_CONTENT}
        client_id = None if event["rawPath"].startswith(OPEN) else _caller(event)
        event = _admissible(event, worker.settings.body_bytes)
        if client_id:
            _within_allowance(client_id, worker)
    except Problem as problem:
        return _built(problem)
    except (PynamoDBException, BotoCoreError, ClientError, SecretError) as error:
        return _built(_not_now(error))
    with answering(ApiRequest(worker, client_id, until)):
        answer = resolver(worker.settings.networks).resolve(dict(event), context)
    worker.emit_events()
    return answer


@cache
def resolver(networks: tuple[str, ...]) -> APIGatewayHttpResolver:
    """Serves the common routes and those of `networks`, which are imported now."""
    app = APIGatewayHttpResolver(enable_validation=True, json_body_deserializer=json_object)
    enabled = [routes_of(name) for name in networks]
    for router in (sign_in.router, *(router for routes in enabled for router in routes.routers)):
        app.include_router(router)
    openapi.serve(app)
    _answer_refusals(app, {path: kind for routes in enabled for path, kind in routes.invalid.items()})
    return app


def json_object(body: str | None) -> dict[str, Any]:
    try:
        found = json.loads(body or "")
    except json.JSONDecodeError as error:
        raise Problem(ProblemKind.MALFORMED, str(error)) from None
    except (ValueError, RecursionError):
        raise Problem(ProblemKind.MALFORMED, TOO_DEEP) from None
    if not isinstance(found, dict):
        raise Problem(ProblemKind.MALFORMED)
    return found


def _check_origin(event: Event, secret: Secret[SharedSecret] | None) -> None:
    """Refuse what came around CloudFront, where each address is limited; without a secret, any may pass."""
    if secret is None:
        return
    expected = secret.get().secret.get_secret_value()
    if not compare_digest(event["headers"].get(ORIGIN_HEADER, "").encode(), expected.encode()):
        raise Problem(ProblemKind.NO_ROUTE)


def _caller(event: Event) -> bytes:
    known = (event["requestContext"].get("authorizer") or {}).get("lambda") or {}
    if "unavailable" in known:
        raise Problem(ProblemKind.UNAVAILABLE, known["unavailable"], headers={"Retry-After": "2"})
    if "client_id" not in known:
        raise Problem(ProblemKind.UNAUTHENTICATED, known.get("refusal"), headers={"WWW-Authenticate": "Bearer"})
    return bytes.fromhex(known["client_id"])


def _within_allowance(client_id: bytes, worker: ApiWorker) -> None:
    """Windows this short bound how many requests of one client are in progress, without counting those that end."""
    limit = worker.settings.requests_per_ten_seconds
    quotas.require(f"requests:{client_id.hex()}", Rate(limit, 10), worker.now(), f"at most {limit} in ten seconds")


def _admissible(event: Event, limit: int) -> Event:
    """The event as the resolver is to see it, which is strict about how a media type is spelt and parses others too."""
    if _size(event) > limit:
        raise Problem(ProblemKind.TOO_LARGE, f"at most {limit} bytes")
    media_type = event["headers"].get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON and event["requestContext"]["http"]["method"] in WITH_BODY:
        raise Problem(ProblemKind.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
    return {**event, "headers": {**event["headers"], "content-type": JSON}}


def _size(event: Event) -> int:
    body = event.get("body") or ""
    return len(b64decode(body) if event.get("isBase64Encoded") else body.encode())


def _built(problem: Problem) -> dict[str, Any]:
    response = problem.response()
    headers = {"Content-Type": response.content_type, **response.headers}
    return {"statusCode": response.status_code, "headers": headers, "body": response.body}


def _answer_refusals(app: APIGatewayHttpResolver, invalid: Mapping[str, ProblemKind]) -> None:
    """Whatever a route raises becomes problem details; `invalid` is as in `NetworkRoutes`."""

    @cache
    def methods() -> dict[str, str]:
        """The methods that each address takes, as `Allow` lists them."""
        paths = openapi.document(app)["paths"]
        return {path: ", ".join(sorted(method.upper() for method in methods)) for path, methods in paths.items()}

    @app.not_found
    def not_found(_: NotFoundError) -> Response[str]:
        allowed = methods().get(app.current_event.path)
        if allowed is None:
            return Problem(ProblemKind.NO_ROUTE).response()
        return Problem(ProblemKind.WRONG_METHOD, headers={"Allow": allowed}).response()

    @app.exception_handler(RequestValidationError)
    def invalid_body(error: RequestValidationError) -> Response[str]:
        errors = [{"field": _path(each["loc"]), "rule": _rule(each)} for each in error.errors()[:MOST_ERRORS]]
        kind = invalid.get(app.current_event.path, ProblemKind.INVALID)
        return Problem(kind, more={"errors": errors}).response()

    app.exception_handler(Problem)(Problem.response)
    app.exception_handler(UnicodeDecodeError)(lambda _: Problem(ProblemKind.MALFORMED, "not UTF-8").response())
    app.exception_handler(RecursionError)(lambda _: Problem(ProblemKind.MALFORMED, TOO_DEEP).response())
    app.exception_handler([PynamoDBException, BotoCoreError, ClientError, SecretError])(
        lambda error: _not_now(error).response()
    )


def _not_now(error: Unavailable) -> Problem:
    code = error_code(error) if isinstance(error, PynamoDBException) else None
    logger.error("AWS gives no usable answer", extra={"error": type(error).__name__, "code": code})
    return Problem(ProblemKind.UNAVAILABLE, headers={"Retry-After": "2"})


def _path(location: tuple[str | int, ...]) -> str:
    """`("body", "rules", 3, "topic")` becomes `rules[3].topic`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location[1:])
    return "".join(steps).removeprefix(".") or str(location[0])


def _rule(error: Mapping[str, Any]) -> str:
    return str(error["msg"]).removeprefix("Value error, ")
