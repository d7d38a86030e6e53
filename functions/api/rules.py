"""`/v1/subscriptions/rules`: replace a subscription's rules, add some, remove some."""

from http import HTTPStatus
from typing import Literal, assert_never
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api.problems import Kind, Problem
from api.room import Room, of_request
from api.shapes import Added, Removed, RulesChange
from clarion.events import RuleChanged, RulesReplaced
from clarion.rulesets import Changed, Unchanged
from clarion.tables import KEY_BYTES

router = APIGatewayHttpRouter()


@router.put("/v1/subscriptions/rules", status_code=HTTPStatus.NO_CONTENT)
def replace(body: RulesChange) -> Response[None]:
    room, client_id = of_request(router)
    now = room.now()
    outcome = room.rule_sets.replace(str(body.subscription_id), client_id, body.as_set(), now=now)
    if outcome is not Unchanged.SUPERSEDED:
        _tell_replaced(room, _done(outcome, room), now)
    return Response(status_code=HTTPStatus.NO_CONTENT)


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


def _tell_replaced(room: Room, changed: Changed, at: int) -> None:
    """First that the earlier rules are void, then each rule: in the order in which a reader is to apply them."""
    row = changed.subscription
    room.events.add(
        RulesReplaced(
            at=at,
            subscription_id=UUID(row.subscription_id),
            client_id=row.client_id,
            generation=int(row.generation),
            revision=int(row.revision),
            rule_count=changed.total,
        )
    )
    _tell(room, changed, "added", at)


def _tell(room: Room, changed: Changed, change: Literal["added", "removed"], at: int) -> None:
    row = changed.subscription
    for pair, push_type in changed.rules.items():
        room.events.add(
            RuleChanged(
                at=at,
                subscription_id=UUID(row.subscription_id),
                client_id=row.client_id,
                generation=int(row.generation),
                revision=int(row.revision),
                change=change,
                sender_pubkey=pair[:KEY_BYTES],
                topic=pair[KEY_BYTES:],
                push_type=push_type,
            )
        )
