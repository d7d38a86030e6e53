"""`/v1/subscriptions`: register a push token, list what is registered, remove it; replace, add and remove its rules."""

from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import TypeAdapter

from api import registrations, rules, subscriptions
from api.listing import NEXT_PAGE, Cursor, answer, page
from api.networks.statements.shapes import (
    CURSOR,
    NewSubscription,
    RulesChange,
    RulesRemoval,
    SubscriptionShape,
)
from api.openapi import BEARER, answers
from api.routes import OF_LISTING, OF_REGISTRATION, OF_REMOVAL, OF_RULES
from api.shapes import Added, Registered, Removal, Removed
from api.worker import ApiRequest, current
from clarion.networks import STATEMENTS
from clarion.rulesets import Owner, RuleSet

router = APIGatewayHttpRouter()
PATH = "/v1/subscriptions"
LISTING = TypeAdapter(list[SubscriptionShape])


@router.post(
    PATH,
    status_code=HTTPStatus.CREATED,
    summary="Register a push token",
    operation_id="registerSubscription",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.CREATED,
        Registered,
        OF_REGISTRATION,
    ),
)
def register(body: NewSubscription) -> Registered:
    """A token belongs to one subscription. If you have registered it already, the 409 has its `subscription_id`.

    A `pending` one waits for the code that is pushed to the token.
    """
    request, owner = _asked()
    return Registered.of(registrations.register(request, body.of(owner)))


@router.get(
    PATH,
    summary="List your subscriptions and their rules",
    operation_id="listSubscriptions",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.OK,
        list[SubscriptionShape],
        OF_LISTING,
        headers=NEXT_PAGE,
    ),
)
def listing(cursor: Annotated[str | None, Query(pattern=CURSOR)] = None) -> Response[Any]:
    """A long list comes in pages: the Link header names the next one, which may go on with the same subscription."""
    request, owner = _asked()
    found = page(request, owner, Cursor.parse(cursor, STATEMENTS) if cursor else None)
    now = request.worker.now()
    shapes = [SubscriptionShape.with_rules(one.row, one.rules, now) for one in found.listed]
    return answer(PATH, LISTING.dump_json(shapes, by_alias=True, exclude_none=True), found.following)


@router.delete(
    PATH,
    status_code=HTTPStatus.NO_CONTENT,
    summary="Remove subscriptions and their rules",
    operation_id="removeSubscriptions",
    tags=["subscriptions"],
    security=BEARER,
    responses=answers(
        HTTPStatus.NO_CONTENT,
        None,
        OF_REMOVAL,
    ),
)
def remove(body: Removal) -> Response[str]:
    """All of them or, if one is not yours, none."""
    request, owner = _asked()
    subscriptions.remove(request, owner, [str(subscription_id) for subscription_id in body.subscription_ids])
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.put(
    f"{PATH}/rules",
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
    f"{PATH}/rules",
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
    f"{PATH}/rules",
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
    rules.check_number(request, len(body.rules))
    return body.as_set()
