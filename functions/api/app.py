"""The resolver: who may pass, and what a body must be.

API Gateway answers a request that its authorizer refuses with a body of its own. So the authorizer lets everyone
through and says in its context who it is; here, whoever is nobody is refused before anything else is looked at.
"""

import json
from functools import cache
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

from api import deliveries, openapi, refusals, routes, sign_in
from api.networks import routes_of
from api.problems import Problem, ProblemKind
from api.refusals import TOO_DEEP
from api.requests import UNAVAILABLE, Event, body_of, caller, check_origin, deadline, not_now, within_allowance
from api.worker import ApiRequest, ApiWorker, answering

OPEN = ("/v1/auth/", *openapi.PATHS)
"""What needs no client: everything else does, whatever its address."""
PREFLIGHT = "OPTIONS /{proxy+}"
"""The route, as `infra.api` has it, of what browsers ask before a page's request: API Gateway adds the words to it."""
JSON = "application/json"
WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}


def handle(event: Event, context: LambdaContext, worker: ApiWorker) -> dict[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    answer = _answer(event, context, worker)
    worker.count_status(answer["statusCode"])
    return answer


def _answer(event: Event, context: LambdaContext, worker: ApiWorker) -> dict[str, Any]:
    until = deadline()
    try:
        check_origin(event, worker.origin)
        if event.get("routeKey") == PREFLIGHT:
            return {"statusCode": HTTPStatus.NO_CONTENT}
        client_id = None if event["rawPath"].startswith(OPEN) else caller(event)
        event = _admissible(event, worker.settings.body_bytes)
        if client_id:
            within_allowance(client_id, worker)
    except Problem as problem:
        return _built(worker.counted(problem))
    except UNAVAILABLE as error:
        return _built(worker.counted(not_now(error)))
    with answering(ApiRequest(worker, client_id, until)):
        answer = resolver(worker.settings.networks).resolve(dict(event), context)
    worker.emit_events()
    return answer


@cache
def resolver(networks: tuple[str, ...]) -> APIGatewayHttpResolver:
    """Serves the common routes and those of `networks`, which are imported now."""
    app = APIGatewayHttpResolver(enable_validation=True, json_body_deserializer=json_object)
    enabled = [routes_of(name) for name in networks]
    common = (sign_in.router, routes.router, deliveries.router)
    for router in (*common, *(router for each in enabled for router in each.routers)):
        app.include_router(router)
    openapi.serve(app, networks)
    refusals.answer(app, {path: kind for each in enabled for path, kind in each.invalid.items()})
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


def _admissible(event: Event, limit: int) -> Event:
    """The event as the resolver is to see it, which is strict about how a media type is spelt and parses others too."""
    body = body_of(event, limit)
    media_type = event["headers"].get("content-type", JSON).partition(";")[0].strip().lower()
    if body and media_type != JSON and event["requestContext"]["http"]["method"] in WITH_BODY:
        raise Problem(ProblemKind.UNSUPPORTED_MEDIA_TYPE, f"send {JSON}")
    return {**event, "headers": {**event["headers"], "content-type": JSON}}


def _built(problem: Problem) -> dict[str, Any]:
    response = problem.response()
    headers = {"Content-Type": response.content_type, **response.headers}
    return {"statusCode": response.status_code, "headers": headers, "body": response.body}
