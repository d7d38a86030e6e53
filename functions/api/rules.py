"""`/v1/subscriptions/rules`: replace a subscription's rules, add some, remove some."""

from http import HTTPStatus
from typing import Literal, assert_never

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api import history
from api.problems import Kind, Problem
from api.room import Room, of_request
from api.shapes import Added, Removed, RulesChange
from clarion.rulesets import Changed, Unchanged

router = APIGatewayHttpRouter()


@router.put("/v1/subscriptions/rules", status_code=HTTPStatus.NO_CONTENT)
def replace(body: RulesChange) -> Response[str]:
    room, client_id = of_request(router)
    now = room.now()
    outcome = room.rule_sets.replace(str(body.subscription_id), client_id, body.as_set(), now=now)
    if outcome is not Unchanged.SUPERSEDED:
        _tell(room, _done(outcome, room), "added", now)
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.post("/v1/subscriptions/rules", status_code=HTTPStatus.CREATED)
def add(body: RulesChange) -> Added:
    room, client_id = of_request(router)
    now = room.now()
    changed = _done(room.rule_sets.add(str(body.subscription_id), client_id, body.as_set(), now=now), room)
    _tell(room, changed, "added", now)
    return Added(added=len(changed.rules), total_rules=changed.total)


@router.delete("/v1/subscriptions/rules")
def discard(body: RulesChange) -> Removed:
    room, client_id = of_request(router)
    now = room.now()
    changed = _done(room.rule_sets.discard(str(body.subscription_id), client_id, body.as_set(), now=now), room)
    _tell(room, changed, "removed", now)
    return Removed(removed=len(changed.rules), total_rules=changed.total)


def _done(outcome: Changed | Unchanged, room: Room) -> Changed:
    match outcome:
        case Changed():
            return outcome
        case Unchanged.NOT_FOUND:
            raise Problem(Kind.NO_SUBSCRIPTION)
        case Unchanged.TOO_MANY:
            raise Problem(Kind.TOO_MANY_RULES, f"at most {room.settings.rules_per_subscription}")
        case Unchanged.CONTENDED | Unchanged.SUPERSEDED:
            raise Problem(Kind.CONTENDED, headers={"Retry-After": "1"})
        case _:
            assert_never(outcome)


def _tell(room: Room, changed: Changed, change: Literal["added", "removed"], at: int) -> None:
    for event in history.of_rules(changed, change, at):
        room.events.add(event)
