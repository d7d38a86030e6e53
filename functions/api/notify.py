"""`/v1/notify`: direct push, for the apps that know it; new ones whitelist instead."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api import quotas
from api.described import BEARER, answers
from api.direct import Message, Try, platform_of
from api.problems import Kind, Problem
from api.room import of_request
from api.shapes import DirectError, Notification, NotificationResult, Platform
from clarion.providers.outcomes import Delivered, Misconfigured

PATH = "/v1/notify"

router = APIGatewayHttpRouter()
logger = Logger(service="api")


@router.post(
    PATH,
    summary="Push straight to a token",
    operation_id="pushDirectly",
    tags=["direct push"],
    security=BEARER,
    responses=answers(
        HTTPStatus.OK,
        NotificationResult,
        [
            Kind.BAD_REQUEST,
            Kind.MALFORMED,
            Kind.UNAUTHENTICATED,
            Kind.DIRECT_PUSH_OFF,
            Kind.TOO_LARGE,
            Kind.UNSUPPORTED_MEDIA_TYPE,
            Kind.TOO_MANY_REQUESTS,
            Kind.UNAVAILABLE,
        ],
    ),
)
def notify(body: Notification) -> Response[Any]:
    """What the provider answers is told as it is: a push that it refuses is a 200 with `success` false."""
    room, client_id, _ = of_request(router)
    service, settings = room.direct_push, room.settings.direct_push
    if service is None or settings is None:
        raise Problem(Kind.DIRECT_PUSH_OFF)
    limit = settings.pushes_per_minute
    wait = quotas.take(f"pushes:{client_id.hex()}", limit=limit, seconds=60, now=room.now())
    if wait:
        raise Problem(Kind.TOO_MANY_REQUESTS, f"at most {limit} pushes a minute", headers={"Retry-After": str(wait)})
    platform = body.platform or platform_of(body.device_token)
    tries = service.push(_message(body), platform)
    if body.bundle_id is None:
        _set_up_rightly(tries[-1], platform)
    result = _result(tries, platform, body.device_token)
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    return Response(status_code=HTTPStatus.OK, content_type="application/json", body=text)


def _message(body: Notification) -> Message:
    return Message(
        token=body.device_token,
        push_id=body.push_id,
        message=body.message,
        voip=bool(body.voip),
        bundle_id=body.bundle_id,
    )


def _set_up_rightly(last: Try, platform: Platform) -> None:
    """Only a push to our own app tells: with another's `bundlerId` it is the caller whom the provider refuses."""
    if isinstance(last.outcome, Misconfigured) and last.outcome.whole_app:
        logger.error("misconfigured", extra={"platform": platform, "reason": last.outcome.reason})
        raise Problem(Kind.UNAVAILABLE, "direct push is not set up rightly", headers={"Retry-After": "60"})


def _result(tries: Sequence[Try], platform: Platform, token: str) -> NotificationResult:
    last = tries[-1].outcome
    if isinstance(last, Delivered):
        return NotificationResult(success=True, platform=platform, sent=1, failed=0, message_id=last.provider_id)
    errors = [
        DirectError(
            device=token,
            environment=one.environment,
            status=one.outcome.status or "no answer",
            response={"reason": one.outcome.reason},
        )
        for one in tries
    ]
    return NotificationResult(success=False, platform=platform, sent=0, failed=1, errors=errors)
