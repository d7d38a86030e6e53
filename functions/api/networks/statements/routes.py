"""`/v1/subscriptions`: register a push token, list what is registered, remove it; replace, add and remove its rules."""

from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import TypeAdapter

from api import registrations, rules, subscriptions
from api.listing import Cursor, page
from api.networks.statements.shapes import (
    CURSOR,
    Added,
    NewSubscription,
    Removal,
    Removed,
    RulesChange,
    RulesRemoval,
    SubscriptionShape,
)
from api.openapi import BEARER, WITH_BODY, WITHOUT_BODY, Headers, answers
from api.problems import Problem, ProblemKind
from api.shapes import Registered
from api.worker import ApiRequest, current
from clarion.networks import STATEMENTS
from clarion.rulesets import Owner, RuleSet
from clarion.subscriptions import Registration

router = APIGatewayHttpRouter()
JSON = "application/json"
NEXT_PAGE: Headers = {
    "Link": {"description": 'The next page, `<…>; rel="next"`, if there is one.', "schema": {"type": "string"}}
}
LISTING = TypeAdapter(list[SubscriptionShape])
OF_RULES = [
    *WITH_BODY,
    ProblemKind.UNAUTHENTICATED,
    ProblemKind.NO_SUBSCRIPTION,
    ProblemKind.SUBSCRIPTION_INVALID,
    ProblemKind.TOO_MANY_RULES,
    ProblemKind.CONTENDED,
]
"""What a change of rules may end in."""


@router.post(
    "/v1/subscriptions",
    status_code=HTTPStatus.CREATED,
    summary="Register a push token",
    operation_id="registerSubscription",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.CREATED,
        Registered,
        [
            *WITH_BODY,
            ProblemKind.UNAUTHENTICATED,
            ProblemKind.TOKEN_TAKEN,
            ProblemKind.TOO_MANY_SUBSCRIPTIONS,
            ProblemKind.CONTENDED,
        ],
    ),
)
def register(body: NewSubscription) -> Registered:
    """A token belongs to one subscription. If you have registered it already, the 409 has its `subscription_id`.

    A `pending` one waits for the code that is pushed to the token.
    """
    request, owner = _asked()
    registration = Registration(
        *owner,
        body.notify_type,
        body.token,
        body.app,
        body.environment,
        device_key=body.device_key,
        wake_every_minutes=body.wake_every_minutes,
    )
    return Registered.of(registrations.register(request, registration))


@router.get(
    "/v1/subscriptions",
    summary="List your subscriptions and their rules",
    operation_id="listSubscriptions",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.OK,
        list[SubscriptionShape],
        [*WITHOUT_BODY, ProblemKind.UNAUTHENTICATED, ProblemKind.RULES_CHANGED, ProblemKind.CONTENDED],
        headers=NEXT_PAGE,
    ),
)
def listing(cursor: Annotated[str | None, Query(pattern=CURSOR)] = None) -> Response[Any]:
    """A long list comes in pages: the Link header names the next one, which may go on with the same subscription."""
    request, owner = _asked()
    found = page(request, owner, Cursor.parse(cursor, STATEMENTS) if cursor else None)
    now = request.worker.now()
    shapes = [SubscriptionShape.with_rules(one.row, one.rules, now) for one in found.listed]
    body = LISTING.dump_json(shapes, by_alias=True, exclude_none=True).decode()
    link = {"Link": f'</v1/subscriptions?cursor={found.following}>; rel="next"'} if found.following else {}
    return Response(status_code=HTTPStatus.OK, content_type=JSON, headers=link, body=body)


@router.delete(
    "/v1/subscriptions",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Remove subscriptions and their rules",
    operation_id="removeSubscriptions",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.NO_CONTENT,
        None,
        [*WITH_BODY, ProblemKind.UNAUTHENTICATED, ProblemKind.NO_SUBSCRIPTION, ProblemKind.CONTENDED],
    ),
)
def remove(body: Removal) -> Response[str]:
    """All of them or, if one is not yours, none."""
    request, owner = _asked()
    subscriptions.remove(request, owner, [str(subscription_id) for subscription_id in body.subscription_ids])
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.put(
    "/v1/subscriptions/rules",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Replace all rules of a subscription",
    operation_id="replaceRules",
    tags=["rules"],
    security=BEARER,
    responses=answers(HTTPStatus.NO_CONTENT, None, OF_RULES),
)
def replace(body: RulesChange) -> Response[str]:
    """At one moment: a statement meets the old rules or the new ones, never some of both."""
    request, owner = _asked()
    rules.replace(request, owner, str(body.subscription_id), _set(body, request))
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.post(
    "/v1/subscriptions/rules",
    status_code=HTTPStatus.CREATED,
    summary="Add rules to a subscription",
    operation_id="addRules",
    tags=["rules"],
    security=BEARER,
    responses=answers(HTTPStatus.CREATED, Added, OF_RULES),
)
def add(body: RulesChange) -> Added:
    """All of them at one moment. Rules that are there already take the `notify_type`, if one is given, and count as none."""
    request, owner = _asked()
    changed = rules.add(request, owner, str(body.subscription_id), _set(body, request))
    return Added(added=changed.new_keys, total_rules=changed.total)


@router.delete(
    "/v1/subscriptions/rules",
    summary="Remove rules from a subscription",
    operation_id="removeRules",
    tags=["rules"],
    security=BEARER,
    responses=answers(HTTPStatus.OK, Removed, OF_RULES),
)
def discard(body: RulesRemoval) -> Removed:
    """All of them at one moment. A rule is identified by its sender and topic; those that are not there are ignored."""
    request, owner = _asked()
    changed = rules.discard(request, owner, str(body.subscription_id), _set(body, request))
    return Removed(removed=len(changed.removed), total_rules=changed.total)


def _asked() -> tuple[ApiRequest, Owner]:
    """The request being answered, and whose subscriptions it is about."""
    request = current()
    return request, request.owner(STATEMENTS)


def _set(body: RulesRemoval, request: ApiRequest) -> RuleSet:
    limit = request.worker.settings.rules_per_request
    if len(body.rules) > limit:
        raise Problem(ProblemKind.INVALID, more={"errors": [{"field": "rules", "rule": f"must be at most {limit}"}]})
    return body.as_set()
