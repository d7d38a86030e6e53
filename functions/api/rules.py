"""`/v1/subscriptions/rules`: replace a subscription's rules, add some, remove some."""

from http import HTTPStatus
from typing import assert_never

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from api import history, quotas
from api.described import BEARER, WITH_BODY, answers
from api.problems import Kind, Problem
from api.room import Room, of_request
from api.shapes import Added, Removed, RulesChange, RulesRemoval
from clarion.rulesets import Changed, Charge, RuleSet, Unchanged

router = APIGatewayHttpRouter()
TAGS = ["rules"]
PROBLEMS = [
    *WITH_BODY,
    Kind.UNAUTHENTICATED,
    Kind.NO_SUBSCRIPTION,
    Kind.SUBSCRIPTION_INVALID,
    Kind.TOO_MANY_RULES,
    Kind.CONTENDED,
]


@router.put(
    "/v1/subscriptions/rules",
    status_code=HTTPStatus.NO_CONTENT,
    summary="Replace all rules of a subscription",
    operation_id="replaceRules",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.NO_CONTENT, None, PROBLEMS),
)
def replace(body: RulesChange) -> Response[str]:
    """At one moment: a statement meets the old rules or the new ones, never some of both."""
    room, client_id, until = of_request(router)
    now = room.now()
    charge = _charge(room, client_id)
    outcome = room.rule_sets.replace(
        str(body.subscription_id), client_id, _set(body, room), now=now, until=until, charge=charge
    )
    if outcome is not Unchanged.SUPERSEDED:
        _tell(room, _done(outcome, room), now)
    return Response(status_code=HTTPStatus.NO_CONTENT, body="")


@router.post(
    "/v1/subscriptions/rules",
    status_code=HTTPStatus.CREATED,
    summary="Add rules to a subscription",
    operation_id="addRules",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.CREATED, Added, PROBLEMS),
)
def add(body: RulesChange) -> Added:
    """All of them at one moment. Rules that are there already take the `notify_type`, if one is given, and count as none."""
    room, client_id, until = of_request(router)
    now = room.now()
    charge = _charge(room, client_id)
    outcome = room.rule_sets.add(
        str(body.subscription_id), client_id, _set(body, room), now=now, until=until, charge=charge
    )
    changed = _done(outcome, room)
    _tell(room, changed, now)
    return Added(added=changed.new_pairs, total_rules=changed.total)


@router.delete(
    "/v1/subscriptions/rules",
    summary="Remove rules from a subscription",
    operation_id="removeRules",
    tags=TAGS,
    security=BEARER,
    responses=answers(HTTPStatus.OK, Removed, PROBLEMS),
)
def discard(body: RulesRemoval) -> Removed:
    """All of them at one moment. A rule is told by its sender and topic; those that are not there are passed over."""
    room, client_id, until = of_request(router)
    now = room.now()
    charge = _charge(room, client_id)
    outcome = room.rule_sets.discard(
        str(body.subscription_id), client_id, _set(body, room), now=now, until=until, charge=charge
    )
    changed = _done(outcome, room)
    _tell(room, changed, now)
    return Removed(removed=len(changed.removed), total_rules=changed.total)


def _charge(room: Room, client_id: bytes) -> Charge:
    """Counts large changes in rules written and erased. Small ones are bounded by the requests they take."""

    def charge(rules: int) -> None:
        limit = room.settings.rules_per_minute
        wait = quotas.take(f"rules:{client_id.hex()}", limit=limit, seconds=60, now=room.now(), amount=rules)
        if wait:
            detail = f"at most {limit} rules written and erased a minute"
            raise Problem(Kind.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(wait)})

    return charge


def _set(body: RulesRemoval, room: Room) -> RuleSet:
    if len(body.rules) > room.settings.rules_per_request:
        errors = [{"field": "rules", "rule": f"must be at most {room.settings.rules_per_request}"}]
        raise Problem(Kind.INVALID, more={"errors": errors})
    return body.as_set()


def _done(outcome: Changed | Unchanged, room: Room) -> Changed:
    match outcome:
        case Changed():
            return outcome
        case Unchanged.NOT_FOUND:
            raise Problem(Kind.NO_SUBSCRIPTION)
        case Unchanged.INVALID:
            raise Problem(Kind.SUBSCRIPTION_INVALID, "register the device's new token and give the rules to that")
        case Unchanged.TOO_MANY:
            raise Problem(Kind.TOO_MANY_RULES, f"at most {room.settings.rules_per_subscription}")
        case Unchanged.CONTENDED | Unchanged.SUPERSEDED:
            raise Problem(Kind.CONTENDED, headers={"Retry-After": "1"})
        case _:
            assert_never(outcome)


def _tell(room: Room, changed: Changed, at: int) -> None:
    for event in history.of_rules(changed, at):
        room.events.add(event)
