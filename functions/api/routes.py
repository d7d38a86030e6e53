"""`/v1/subscriptions/{id}`: look at one subscription, change it, replace its token, prove the token, whatever its network."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api import proofs, registrations, subscriptions
from api.openapi import BEARER, WITH_BODY, WITHOUT_BODY, answers
from api.problems import ProblemKind
from api.shapes import HandedBackCode, NewToken, Registered, SubscriptionChange, SubscriptionState
from api.subscriptions import canonical_token, own
from api.worker import current
from clarion.tables import Subscription

router = APIGatewayHttpRouter()
TAGS = ["subscriptions"]
OF_ONE = [ProblemKind.UNAUTHENTICATED, ProblemKind.NO_SUBSCRIPTION]
OF_A_CHANGE = [*OF_ONE, *WITH_BODY, ProblemKind.SUBSCRIPTION_INVALID, ProblemKind.CONTENDED]
"""What a change of one subscription may end in."""
OF_REGISTRATION = [
    *WITH_BODY,
    ProblemKind.UNAUTHENTICATED,
    ProblemKind.TOKEN_TAKEN,
    ProblemKind.TOO_MANY_SUBSCRIPTIONS,
    ProblemKind.CONTENDED,
]
OF_LISTING = [*WITHOUT_BODY, ProblemKind.UNAUTHENTICATED, ProblemKind.RULES_CHANGED, ProblemKind.CONTENDED]
OF_REMOVAL = [*OF_ONE, *WITH_BODY, ProblemKind.CONTENDED]
OF_RULES = [*OF_REMOVAL, ProblemKind.SUBSCRIPTION_INVALID, ProblemKind.TOO_MANY_RULES]
"""What the networks' requests for registrations, listings, removals and rules may end in."""


@router.get(
    "/v1/subscriptions/<subscription_id>",
    summary="Look at a subscription",
    operation_id="getSubscription",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.OK, SubscriptionState, [*OF_ONE, *WITHOUT_BODY]),
)
def show(subscription_id: UUID) -> Response[Any]:
    """Without its rules."""
    return _shown(own(current(), subscription_id))


@router.patch(
    "/v1/subscriptions/<subscription_id>",
    summary="Change a subscription",
    operation_id="changeSubscription",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.OK, SubscriptionState, OF_A_CHANGE),
)
def change(subscription_id: UUID, body: SubscriptionChange) -> Response[Any]:
    """What is absent stays, and null removes. Token and rules have requests of their own."""
    return _shown(subscriptions.change(current(), subscription_id, body.changes))


@router.put(
    "/v1/subscriptions/<subscription_id>/token",
    summary="Replace the token of a subscription",
    operation_id="replaceToken",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.OK, Registered, [*OF_A_CHANGE, ProblemKind.TOKEN_TAKEN]),
)
def replace_token(subscription_id: UUID, body: NewToken) -> Registered:
    """Its rules stay, and the token it had is free. If the new one has to be proven it is `pending` until then."""
    request = current()
    row = own(request, subscription_id)
    token = canonical_token(row, body.notify_type, body.token)
    return Registered.of(registrations.replace_token(request, row, token))


@router.post(
    "/v1/subscriptions/<subscription_id>/proof",
    summary="Hand back the code that was pushed to the token",
    operation_id="proveToken",
    tags=TAGS,
    security=BEARER,
    responses=answers(
        HTTPStatus.OK,
        Registered,
        [
            *OF_A_CHANGE,
            ProblemKind.WRONG_CODE,
            ProblemKind.CODE_EXPIRED,
            ProblemKind.ALREADY_ACTIVE,
            ProblemKind.TOKEN_TAKEN,
        ],
    ),
)
def prove(subscription_id: UUID, body: HandedBackCode) -> Registered:
    """The subscription is active from then on. Another one that had the token ends: `invalid`, for it is `replaced`."""
    return Registered.of(proofs.prove(current(), subscription_id, body.secret))


@router.post(
    "/v1/subscriptions/<subscription_id>/proof/request",
    status_code=HTTPStatus.ACCEPTED,
    summary="Have another code pushed to the token",
    operation_id="requestCode",
    tags=TAGS,
    security=BEARER,
    responses=answers(
        HTTPStatus.ACCEPTED,
        None,
        [
            *OF_ONE,
            *WITHOUT_BODY,
            ProblemKind.TOO_LARGE,
            ProblemKind.UNSUPPORTED_MEDIA_TYPE,
            ProblemKind.SUBSCRIPTION_INVALID,
            ProblemKind.ALREADY_ACTIVE,
            ProblemKind.TOKEN_TAKEN,
            ProblemKind.CONTENDED,
        ],
    ),
)
def request_code(subscription_id: UUID) -> Response[str]:
    """It replaces the one before. A body is ignored."""
    request = current()
    proofs.renew(request, own(request, subscription_id))
    return Response(status_code=HTTPStatus.ACCEPTED, body="")


def _shown(row: Subscription) -> Response[Any]:
    shape = SubscriptionState.of(row, current().worker.now())
    text = shape.model_dump_json(by_alias=True, exclude_none=True)
    return Response(status_code=HTTPStatus.OK, content_type="application/json", body=text)
