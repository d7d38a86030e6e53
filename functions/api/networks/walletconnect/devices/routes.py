"""`/v1/walletconnect/subscriptions`: what `/v1/subscriptions` is for statements, for the topics that wallets read."""

from http import HTTPStatus
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import TypeAdapter

from api import registrations, rules, subscriptions
from api.listing import NEXT_PAGE, Cursor, answer, page
from api.networks.walletconnect.devices.shapes import CURSOR, DeviceShape, NewDevice, TopicRulesChange, TopicsRemoval
from api.openapi import BEARER, answers
from api.routes import OF_LISTING, OF_REGISTRATION, OF_REMOVAL, OF_RULES
from api.shapes import Added, Registered, Removal, Removed
from api.worker import ApiRequest, current
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.needs import DEVICES as PATH
from clarion.networks.walletconnect.rules import key_of
from clarion.rulesets import Owner, RuleSet

router = APIGatewayHttpRouter()
TAGS = ["walletconnect"]
LISTING = TypeAdapter(list[DeviceShape])


@router.post(
    PATH,
    status_code=HTTPStatus.CREATED,
    summary="Register a wallet's push token",
    operation_id="registerDevice",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.CREATED, Registered, OF_REGISTRATION),
)
def register(body: NewDevice) -> Registered:
    """As for statements: a token belongs to one subscription, and a `pending` one waits for its code."""
    request, owner = _asked()
    return Registered.of(registrations.register(request, body.of(owner)))


@router.get(
    PATH,
    summary="List your wallet's subscriptions and their topics",
    operation_id="listDevices",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.OK, list[DeviceShape], OF_LISTING, headers=NEXT_PAGE),
)
def listing(cursor: Annotated[str | None, Query(pattern=CURSOR)] = None) -> Response[Any]:
    """In pages, as for statements."""
    request, owner = _asked()
    found = page(request, owner, Cursor.parse(cursor, WALLETCONNECT) if cursor else None)
    now = request.worker.now()
    shapes = [DeviceShape.with_rules(one.row, one.rules, now) for one in found.listed]
    return answer(PATH, LISTING.dump_json(shapes, by_alias=True, exclude_none=True), found.following)


@router.delete(
    PATH,
    status_code=HTTPStatus.NO_CONTENT,
    summary="Remove a wallet's subscriptions and their topics",
    operation_id="removeDevices",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.NO_CONTENT, None, OF_REMOVAL),
)
def remove(body: Removal) -> Response[str]:
    """All of them or, if one is not yours, none."""
    request, owner = _asked()
    subscriptions.remove(request, owner, [str(subscription_id) for subscription_id in body.subscription_ids])
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.put(
    f"{PATH}/rules",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Replace all topics of a wallet's subscription",
    operation_id="replaceTopics",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.NO_CONTENT, None, OF_RULES),
)
def replace(body: TopicRulesChange) -> Response[str]:
    """At one moment: a notification meets the old topics or the new ones, never some of both."""
    request, owner = _asked()
    rules.replace(request, owner, str(body.subscription_id), _set(body, request))
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.post(
    f"{PATH}/rules",
    status_code=HTTPStatus.CREATED,
    summary="Add topics to a wallet's subscription",
    operation_id="addTopics",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.CREATED, Added, OF_RULES),
)
def add(body: TopicRulesChange) -> Added:
    """All of them at one moment. One that is there already takes the `types`, if some are given, and counts as none."""
    request, owner = _asked()
    changed = rules.add(request, owner, str(body.subscription_id), _set(body, request))
    return Added(added=changed.new_keys, total_rules=changed.total)


@router.delete(
    f"{PATH}/rules",
    summary="Remove topics from a wallet's subscription",
    operation_id="removeTopics",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.OK, Removed, OF_RULES),
)
def discard(body: TopicsRemoval) -> Removed:
    """All of them at one moment; those that are not there are ignored."""
    request, owner = _asked()
    rules.check_number(request, len(body.topics))
    keys = [key_of(topic) for topic in body.topics]
    changed = rules.discard(request, owner, str(body.subscription_id), keys)
    return Removed(removed=len(changed.removed), total_rules=changed.total)


def _asked() -> tuple[ApiRequest, Owner]:
    """The request being answered, and whose subscriptions it is about."""
    request = current()
    return request, request.owner(WALLETCONNECT)


def _set(body: TopicRulesChange, request: ApiRequest) -> RuleSet:
    rules.check_number(request, len(body.rules))
    return body.as_set()
