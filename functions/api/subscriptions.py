"""`/v1/subscriptions`: register a push token, list what is registered, remove it."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import TypeAdapter

from api import history
from api.problems import Kind, Problem
from api.room import of_request
from api.shapes import NewSubscription, Registered, Removal, RuleShape, SubscriptionShape
from clarion import subscriptions
from clarion.decisions import NotifyType, SubscriptionStatus
from clarion.rulesets import RuleSet
from clarion.subscriptions import TokenTaken
from clarion.tables import Subscription

router = APIGatewayHttpRouter()
LISTING = TypeAdapter(list[SubscriptionShape])


@router.post("/v1/subscriptions", status_code=HTTPStatus.CREATED)
def register(body: NewSubscription) -> Registered:
    room, client_id = of_request(router)
    if len(subscriptions.of_client(client_id)) >= room.settings.subscriptions_per_client:
        raise Problem(Kind.TOO_MANY_SUBSCRIPTIONS, f"at most {room.settings.subscriptions_per_client}")
    now = room.now()
    made = subscriptions.register(room.connection, client_id, body.notify_type, body.token, now=now)
    if isinstance(made, TokenTaken):
        mine = {"subscription_id": made.subscription_id} if made.client_id == client_id else {}
        raise Problem(Kind.TOKEN_TAKEN, more=mine)
    room.events.add(history.of_subscription(made, now))
    return Registered(subscription_id=UUID(made.subscription_id))


@router.get("/v1/subscriptions")
def listing() -> Response[Any]:
    room, client_id = of_request(router)
    found = [room.rule_sets.read(row.subscription_id, client_id) for row in subscriptions.of_client(client_id)]
    shapes = [_shape(*told) for told in found if isinstance(told, tuple)]
    body = LISTING.dump_json(shapes, by_alias=True, exclude_none=True).decode()
    return Response(status_code=HTTPStatus.OK, content_type="application/json", body=body)


@router.delete("/v1/subscriptions", status_code=HTTPStatus.NO_CONTENT)
def remove(body: Removal) -> Response[str]:
    room, client_id = of_request(router)
    ids = [str(subscription_id) for subscription_id in body.subscription_ids]
    removed = subscriptions.remove(room.connection, ids, client_id)
    if removed is None:
        raise Problem(Kind.NO_SUBSCRIPTION, "nothing was removed")
    now = room.now()
    for row in removed:
        room.events.add(history.of_subscription(row, now, removed=True))
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


def _shape(row: Subscription, rules: RuleSet) -> SubscriptionShape:
    return SubscriptionShape(
        subscription_id=UUID(row.subscription_id),
        notify_type=NotifyType(row.notify_type),
        token=row.token,
        status=SubscriptionStatus(row.status),
        status_reason=row.status_reason,
        rules=[RuleShape.of(pair, push_type) for pair, push_type in rules.items()],
    )
