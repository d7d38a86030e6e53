"""The resolver: who may pass, what a body must be, and how every refusal becomes problem details.

API Gateway answers a request that its authorizer refuses with a body of its own. So the authorizer lets everyone
through and says in its context who it is; here, whoever is nobody is refused before anything else is looked at.
"""

import json
import time
from base64 import b64decode
from collections.abc import Mapping
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from api import auth, notify, openapi, origin, quotas, rules, subscriptions
from api.problems import Kind, Problem
from api.room import REQUEST_SECONDS, Room
from clarion.metrics import Metric, metrics_of
from clarion.secrets import SecretError
from clarion.tables import error_code

OPEN = ("/v1/auth/", *openapi.PATHS)
"""What needs no client: everything else does, whatever its address."""
JSON = "application/json"
WITH_BODY = {"POST", "PUT", "DELETE"}
ERRORS_TOLD = 20
TOO_DEEP = "too deep, or a number of too many digits"

logger = Logger(service="api")


def json_object(body: str | None) -> dict[str, Any]:
    try:
        found = json.loads(body or "")
    except json.JSONDecodeError as error:
        raise Problem(Kind.MALFORMED, str(error)) from None
    except (ValueError, RecursionError):
        raise Problem(Kind.MALFORMED, TOO_DEEP) from None
    if not isinstance(found, dict):
        raise Problem(Kind.MALFORMED)
    return found


app = APIGatewayHttpResolver(enable_validation=True, json_body_deserializer=json_object)
app.include_router(auth.router)
app.include_router(subscriptions.router)
app.include_router(rules.router)
app.include_router(notify.router)
openapi.serve(app)


def handle(event: Mapping[str, Any], context: LambdaContext, room: Room) -> dict[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    until = time.monotonic() + REQUEST_SECONDS
    try:
        origin.check(event, room.origin)
        client_id = None if event["rawPath"].startswith(OPEN) else _caller(event)
        event = _admissible(event, room.settings.body_bytes)
        if client_id:
            _within_allowance(client_id, room)
    except Problem as problem:
        return _built(problem)
    except (PynamoDBException, BotoCoreError, ClientError, SecretError) as error:
        return _built(_not_now(error))
    app.append_context(room=room, client_id=client_id, until=until)
    answer = app.resolve(event, context)
    _tell_lake(room)
    return answer


def _tell_lake(room: Room) -> None:
    """What was changed stays changed: an event that is lost counts in a metric and fails no request."""
    if lost := room.events.flush():
        metrics = metrics_of("api", room.settings.stage)
        metrics.add_metric(Metric.EVENTS_LOST, MetricUnit.Count, lost)
        metrics.flush_metrics()


def _caller(event: Mapping[str, Any]) -> bytes:
    told = (event["requestContext"].get("authorizer") or {}).get("lambda") or {}
    if "unavailable" in told:
        raise Problem(Kind.UNAVAILABLE, told["unavailable"], headers={"Retry-After": "2"})
    if "client_id" not in told:
        raise Problem(Kind.UNAUTHENTICATED, told.get("refusal"), headers={"WWW-Authenticate": "Bearer"})
    return bytes.fromhex(told["client_id"])


def _within_allowance(client_id: bytes, room: Room) -> None:
    """Windows this short bound how many requests of one client are in progress, without counting those that end."""
    limit = room.settings.requests_per_ten_seconds
    wait = quotas.take(f"requests:{client_id.hex()}", limit=limit, seconds=10, now=room.now())
    if wait:
        raise Problem(Kind.TOO_MANY_REQUESTS, f"at most {limit} in ten seconds", headers={"Retry-After": str(wait)})


def _admissible(event: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The event as the resolver is to see it, which is strict about how a media type is spelt and parses others too."""
    if _size(event) > limit:
        raise Problem(Kind.TOO_LARGE, f"at most {limit} bytes")
    media_type = event["headers"].get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON and event["requestContext"]["http"]["method"] in WITH_BODY:
        raise Problem(Kind.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
    return {**event, "headers": {**event["headers"], "content-type": JSON}}


def _size(event: Mapping[str, Any]) -> int:
    body = event.get("body") or ""
    return len(b64decode(body) if event.get("isBase64Encoded") else body.encode())


def _built(problem: Problem) -> dict[str, Any]:
    response = problem.response()
    headers = {"Content-Type": response.content_type, **response.headers}
    return {"statusCode": response.status_code, "headers": headers, "body": response.body}


@app.exception_handler(Problem)
def _problem(problem: Problem) -> Response[str]:
    return problem.response()


@app.not_found
def _not_found(_: NotFoundError) -> Response[str]:
    allowed = _methods().get(app.current_event.path)
    if allowed is None:
        return Problem(Kind.NO_ROUTE).response()
    return Problem(Kind.WRONG_METHOD, headers={"Allow": allowed}).response()


@cache
def _methods() -> dict[str, str]:
    """The methods that each address takes, as `Allow` lists them."""
    paths = openapi.document(app)["paths"]
    return {path: ", ".join(sorted(method.upper() for method in methods)) for path, methods in paths.items()}


@app.exception_handler(UnicodeDecodeError)
def _not_text(_: UnicodeDecodeError) -> Response[str]:
    return Problem(Kind.MALFORMED, "not UTF-8").response()


@app.exception_handler(RecursionError)
def _too_deep(_: RecursionError) -> Response[str]:
    return Problem(Kind.MALFORMED, TOO_DEEP).response()


@app.exception_handler(RequestValidationError)
def _invalid(error: RequestValidationError) -> Response[str]:
    errors = [{"field": _path(told["loc"]), "rule": _rule(told)} for told in error.errors()[:ERRORS_TOLD]]
    kind = Kind.BAD_REQUEST if app.current_event.path == notify.PATH else Kind.INVALID
    return Problem(kind, more={"errors": errors}).response()


@app.exception_handler([PynamoDBException, BotoCoreError, ClientError, SecretError])
def _unavailable(error: PynamoDBException | BotoCoreError | ClientError | SecretError) -> Response[str]:
    return _not_now(error).response()


def _not_now(error: PynamoDBException | BotoCoreError | ClientError | SecretError) -> Problem:
    code = error_code(error) if isinstance(error, PynamoDBException) else None
    logger.error("AWS gives no usable answer", extra={"error": type(error).__name__, "code": code})
    return Problem(Kind.UNAVAILABLE, headers={"Retry-After": "2"})


def _path(location: tuple[str | int, ...]) -> str:
    """`("body", "rules", 3, "topic")` becomes `rules[3].topic`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location[1:])
    return "".join(steps).removeprefix(".") or str(location[0])


def _rule(told: Mapping[str, Any]) -> str:
    return str(told["msg"]).removeprefix("Value error, ")
