"""`/v1/notify`: direct push, for the apps that know it; new ones whitelist instead."""

from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api import quotas
from api.networks.statements.direct import (
    DirectAttempt,
    DirectError,
    DirectMessage,
    DirectPush,
    DirectResult,
    Platform,
    platform_of,
)
from api.openapi import BEARER, answers
from api.problems import Problem, ProblemKind
from api.quotas import Rate
from api.settings import DirectPushSettings
from api.token_quota import quota_of
from api.worker import ApiRequest, current
from clarion import aws
from clarion.channels import Channel
from clarion.networks import STATEMENTS
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
        DirectResult,
        [
            ProblemKind.BAD_REQUEST,
            ProblemKind.MALFORMED,
            ProblemKind.UNAUTHENTICATED,
            ProblemKind.DIRECT_PUSH_OFF,
            ProblemKind.TOO_LARGE,
            ProblemKind.UNSUPPORTED_MEDIA_TYPE,
            ProblemKind.TOO_MANY_REQUESTS,
            ProblemKind.UNAVAILABLE,
        ],
    ),
)
def notify(body: DirectMessage) -> Response[Any]:
    """The provider's answer is returned as it is: a push that it refuses is a 200 with `success` false."""
    request = current()
    settings = request.worker.settings.direct_push
    client_id = request.owner(STATEMENTS).client_id
    if settings is None:
        raise Problem(ProblemKind.DIRECT_PUSH_OFF)
    platform = body.platform or platform_of(body.device_token)
    _within_allowances(request, settings, client_id, _token_quota(body, platform))
    attempts = _service(settings).push(body, platform)
    if body.bundle_id is None:
        _check_own_app(attempts[-1], platform)
    result = _result(attempts, platform, body.device_token)
    text = result.model_dump_json(by_alias=True, exclude_none=True)
    return Response(status_code=HTTPStatus.OK, content_type="application/json", body=text)


@cache
def _service(settings: DirectPushSettings) -> DirectPush:
    """Made at the first push, then kept with its connections."""
    return DirectPush.open(settings, aws.secrets(aws.new_session()))


def _token_quota(body: DirectMessage, platform: Platform) -> str:
    return quota_of(Channel.APNS if platform == "ios" else Channel.FCM, body.device_token)


def _within_allowances(request: ApiRequest, settings: DirectPushSettings, client_id: bytes, token_quota: str) -> None:
    """The client's, and the token's."""
    now, of_client, of_token = request.worker.now(), settings.pushes_per_minute, settings.pushes_per_token_per_minute
    detail = f"at most {of_client} pushes a minute"
    quotas.require(f"pushes:{client_id.hex()}", Rate(of_client, 60), now, detail)
    detail = f"at most {of_token} pushes a minute to one token, from all its senders"
    quotas.require(token_quota, Rate(of_token, 60), now, detail)


def _check_own_app(last: DirectAttempt, platform: Platform) -> None:
    """Only a push to our own app shows a fault of ours: with another's `bundlerId`, the provider refuses the caller."""
    if isinstance(last.outcome, Misconfigured) and last.outcome.whole_app:
        logger.error("misconfigured", extra={"platform": platform, "reason": last.outcome.reason})
        raise Problem(ProblemKind.UNAVAILABLE, "direct push is not set up rightly", headers={"Retry-After": "60"})


def _result(attempts: Sequence[DirectAttempt], platform: Platform, token: str) -> DirectResult:
    last = attempts[-1].outcome
    if isinstance(last, Delivered):
        return DirectResult(success=True, platform=platform, sent=1, failed=0, message_id=last.provider_id)
    errors = [
        DirectError(
            device=token,
            environment=one.environment,
            status=one.outcome.status or "no answer",
            response={"reason": one.outcome.reason},
        )
        for one in attempts
    ]
    return DirectResult(success=False, platform=platform, sent=0, failed=1, errors=errors)
