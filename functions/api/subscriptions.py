"""`/v1/subscriptions`: register a push token, list what is registered, remove it."""

from collections.abc import Sequence
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import TypeAdapter

from api.described import BEARER, WITH_BODY, WITHOUT_BODY, Headers, answers
from api.paging import CURSOR, Cursor
from api.problems import Kind, Problem
from api.room import Room, of_request
from api.shapes import NewSubscription, Registered, Removal, RuleShape, SubscriptionShape
from clarion import subscriptions
from clarion.channels import Channel
from clarion.decisions import Environment, SubscriptionStatus
from clarion.events import SubscriptionChanged
from clarion.rulesets import RuleSet, Unchanged
from clarion.subscriptions import Registration, TokenTaken
from clarion.tables import Subscription

router = APIGatewayHttpRouter()
TAGS = ["subscriptions"]
JSON = "application/json"
NEXT_PAGE: Headers = {
    "Link": {"description": 'The next page, `<…>; rel="next"`, if there is one.', "schema": {"type": "string"}}
}
LISTING = TypeAdapter(list[SubscriptionShape])


@router.post(
    "/v1/subscriptions",
    status_code=HTTPStatus.CREATED,
    summary="Register a push token",
    operation_id="registerSubscription",
    tags=TAGS,
    security=BEARER,
    responses=answers(
        HTTPStatus.CREATED,
        Registered,
        [*WITH_BODY, Kind.UNAUTHENTICATED, Kind.TOKEN_TAKEN, Kind.TOO_MANY_SUBSCRIPTIONS, Kind.CONTENDED],
    ),
)
def register(body: NewSubscription) -> Registered:
    """A token belongs to one subscription; its owner is told which one if it is registered already."""
    room, client_id, _ = of_request(router)
    _check_app(body, room)
    now = room.now()
    wish = Registration(client_id, body.notify_type, body.token, body.app, body.environment)
    made = subscriptions.holder(body.notify_type, body.token) or _made(room, wish, now)
    if isinstance(made, TokenTaken):
        mine = {"subscription_id": made.subscription_id} if made.client_id == client_id else {}
        raise Problem(Kind.TOKEN_TAKEN, more=mine)
    if isinstance(made, Unchanged):
        raise Problem(Kind.CONTENDED, headers={"Retry-After": "1"})
    room.events.add(SubscriptionChanged.of(made, now))
    return Registered(subscription_id=UUID(made.subscription_id))


def _check_app(body: NewSubscription, room: Room) -> None:
    if body.app is not None and body.app not in room.settings.apps[body.notify_type]:
        errors = [{"field": "app", "rule": f"must be an app that this deployment reaches by {body.notify_type}"}]
        raise Problem(Kind.INVALID, more={"errors": errors})


def _made(room: Room, wish: Registration, now: int) -> Subscription | TokenTaken | Unchanged:
    """A phone that gets new tokens must not lock itself out: its oldest dead subscription gives way."""
    limit = room.settings.subscriptions_per_client
    rows = subscriptions.of_client(wish.client_id)
    dead = sorted((row for row in rows if row.status != SubscriptionStatus.ACTIVE), key=lambda row: row.updated_at)
    if len(rows) - len(dead) >= limit:
        raise Problem(Kind.TOO_MANY_SUBSCRIPTIONS, f"at most {limit}")
    surplus = max(len(rows) - limit + 1, 0)
    if surplus:
        outcome = _remove(room, wish.client_id, [row.subscription_id for row in dead[:surplus]], now)
        if outcome is Unchanged.CONTENDED:
            return outcome
    return subscriptions.register(room.connection, wish, now=now)


@router.get(
    "/v1/subscriptions",
    summary="List your subscriptions and their rules",
    operation_id="listSubscriptions",
    tags=TAGS,
    security=BEARER,
    responses=answers(
        HTTPStatus.OK,
        list[SubscriptionShape],
        [*WITHOUT_BODY, Kind.UNAUTHENTICATED, Kind.RULES_CHANGED, Kind.CONTENDED],
        headers=NEXT_PAGE,
    ),
)
def listing(cursor: Annotated[str | None, Query(pattern=CURSOR)] = None) -> Response[Any]:
    """A long list comes in pages: the Link header names the next one, which may go on with the same subscription."""
    room, client_id, until = of_request(router)
    shapes, following = _page(room, client_id, Cursor.parse(cursor) if cursor else None, until)
    body = LISTING.dump_json(shapes, by_alias=True, exclude_none=True).decode()
    link = {"Link": f'</v1/subscriptions?cursor={following}>; rel="next"'} if following else {}
    return Response(status_code=HTTPStatus.OK, content_type=JSON, headers=link, body=body)


@router.delete(
    "/v1/subscriptions",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Remove subscriptions and their rules",
    operation_id="removeSubscriptions",
    tags=TAGS,
    security=BEARER,
    responses=answers(
        HTTPStatus.NO_CONTENT, None, [*WITH_BODY, Kind.UNAUTHENTICATED, Kind.NO_SUBSCRIPTION, Kind.CONTENDED]
    ),
)
def remove(body: Removal) -> Response[str]:
    """All of them or, if one is not yours, none."""
    room, client_id, _ = of_request(router)
    outcome = _remove(room, client_id, [str(subscription_id) for subscription_id in body.subscription_ids], room.now())
    if outcome is Unchanged.NOT_FOUND:
        raise Problem(Kind.NO_SUBSCRIPTION, "nothing was removed")
    if outcome is not None:
        raise Problem(Kind.CONTENDED, headers={"Retry-After": "1"})
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


def _remove(room: Room, client_id: bytes, ids: Sequence[str], now: int) -> Unchanged | None:
    """Remove all of them, or say why none was removed. The clean-up erases their rules."""
    removed = subscriptions.remove(room.connection, ids, client_id, request_cleanup=lambda: room.cleanup.send(ids))
    if isinstance(removed, Unchanged):
        return removed
    for row in removed:
        room.events.add(SubscriptionChanged.of_removed(row, now))
    return None


class Part(NamedTuple):
    """Some of a subscription's rules, and whether there are more after them."""

    row: Subscription
    rules: RuleSet
    more: bool


def _page(
    room: Room, client_id: bytes, begin: Cursor | None, until: float
) -> tuple[list[SubscriptionShape], Cursor | None]:
    """The subscriptions from `begin` on with as many rules as fit, and where the next page begins."""
    left, shapes = room.settings.rules_per_page, list[SubscriptionShape]()
    for subscription_id in (row.subscription_id for row in subscriptions.of_client(client_id)):
        if begin and subscription_id < begin.subscription_id:
            continue
        if left == 0:
            return shapes, Cursor(subscription_id)
        here = begin if begin and subscription_id == begin.subscription_id else Cursor(subscription_id)
        part = _part(room, client_id, here, left, until)
        if part is None:
            continue
        shapes.append(_shape(part.row, part.rules))
        if part.more:
            return shapes, Cursor(subscription_id, int(part.row.revision), next(reversed(part.rules)))
        left -= len(part.rules)
    return shapes, None


def _part(room: Room, client_id: bytes, here: Cursor, limit: int, until: float) -> Part | None:
    """None if the subscription has meanwhile gone."""
    found = room.rule_sets.read(here.subscription_id, client_id, after=here.after, limit=limit + 1, until=until)
    match found:
        case Unchanged.NOT_FOUND:
            return None
        case Unchanged():
            raise Problem(Kind.CONTENDED, headers={"Retry-After": "1"})
        case row, rules:
            if here.revision is not None and here.revision != row.revision:
                raise Problem(Kind.RULES_CHANGED, "begin again without a cursor")
            more = len(rules) > limit
            return Part(row, dict(islice(rules.items(), limit)), more)


def _shape(row: Subscription, rules: RuleSet) -> SubscriptionShape:
    return SubscriptionShape(
        subscription_id=UUID(row.subscription_id),
        notify_type=Channel(row.notify_type),
        token=row.token,
        app=row.app,
        environment=Environment(row.environment) if row.environment else None,
        status=SubscriptionStatus(row.status),
        status_reason=row.status_reason,
        rules=[RuleShape.of(pair, push_type) for pair, push_type in rules.items()],
    )
