"""Changing the rules of a subscription, whatever its network: within the client's allowance, and recorded in the lake."""

from collections.abc import Collection
from typing import assert_never

from api import quotas
from api.problems import Problem, ProblemKind, contended
from api.quotas import Rate
from api.subscriptions import invalid_field
from api.worker import ClientRequest, ClientWorker
from clarion.rule_events import rule_events
from clarion.rulesets import Changed, Owner, Renewed, RequestContext, RuleSet, Unchanged


def replace(request: ClientRequest, owner: Owner, subscription_id: str, rules: RuleSet) -> None:
    """Put `rules` in force at one moment, and all others out of it."""
    context = _context(request, owner)
    outcome = request.worker.rule_sets.replace(subscription_id, owner, rules, context)
    if outcome is not Unchanged.SUPERSEDED:
        _done(request.worker, outcome, context.now)


def add(request: ClientRequest, owner: Owner, subscription_id: str, rules: RuleSet) -> Changed:
    """Put `rules` in force beside the others; one that is there already takes the condition, if one is given."""
    context = _context(request, owner)
    return _done(request.worker, request.worker.rule_sets.add(subscription_id, owner, rules, context), context.now)


def renew(
    request: ClientRequest, owner: Owner, subscription_id: str, keys: Collection[bytes], renewed: Renewed
) -> Changed:
    """Put a rule for each of `keys` in force beside the others, with a condition worked out from its present one."""
    context = _context(request, owner)
    outcome = request.worker.rule_sets.renew(subscription_id, owner, keys, renewed, context)
    return _done(request.worker, outcome, context.now)


def discard(request: ClientRequest, owner: Owner, subscription_id: str, keys: Collection[bytes]) -> Changed:
    """Put the rules for `keys` out of force; keys without a rule are passed over."""
    context = _context(request, owner)
    return _done(request.worker, request.worker.rule_sets.discard(subscription_id, owner, keys, context), context.now)


def check_number(request: ClientRequest, rules: int) -> None:
    """Raises `Problem` for more rules than one request may name."""
    limit = request.worker.settings.rules_per_request
    if rules > limit:
        raise invalid_field("rules", f"must be at most {limit}")


def _context(request: ClientRequest, owner: Owner) -> RequestContext:
    """Large changes count in rules written and erased. Small ones are bounded by the requests they take."""
    worker = request.worker

    def charge(rules: int) -> None:
        limit = worker.settings.rules_per_minute
        detail = f"at most {limit} rules written and erased a minute"
        quotas.require(f"rules:{owner.client_id.hex()}", Rate(limit, 60), worker.now(), detail, rules)

    return RequestContext(worker.now(), request.until, charge)


def _done(worker: ClientWorker, outcome: Changed | Unchanged, at: int) -> Changed:
    match outcome:
        case Changed():
            for event in rule_events(outcome, at):
                worker.events.add(event)
            return outcome
        case Unchanged.NOT_FOUND:
            raise Problem(ProblemKind.NO_SUBSCRIPTION)
        case Unchanged.INVALID:
            detail = "register the token that the device has now, and give the rules to that"
            raise Problem(ProblemKind.SUBSCRIPTION_INVALID, detail)
        case Unchanged.TOO_MANY:
            raise Problem(ProblemKind.TOO_MANY_RULES, f"at most {worker.settings.rules_per_subscription}")
        case Unchanged.CONTENDED | Unchanged.SUPERSEDED:
            raise contended()
        case _:
            assert_never(outcome)
