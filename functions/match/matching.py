"""Whose rules want an envelope, of the rules and subscriptions that have been read."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus, Wanted
from clarion.networks import Envelope, Rule, network, statuses_in_force
from match.failures import Unreadable, read_row

type TakesOwn = Callable[[str | None], bool]
"""Whether an app, or the first one for None, has own messages delivered."""


class Candidate(NamedTuple):
    """A rule that names one of an envelope's keys, and counts if its generation is in force."""

    subscription_id: str
    generation: int
    condition: bytes = b""


class Subscriber(NamedTuple):
    """A subscription, without its token."""

    subscription_id: str
    client_id: bytes
    channel: Channel
    active: bool
    generation: int
    app: str | None = None
    pending: bool = False


class Match(NamedTuple):
    """How a subscription wants an envelope, and under which of its keys. It may also want it not to be pushed.

    With `own`, it is an own message that its app has delivered.
    """

    subscriber: Subscriber
    key: bytes
    wanted: Wanted
    own: bool = False


class Matches(NamedTuple):
    """By subscription: at most one match for each; and whose rules can't be read."""

    found: dict[str, Match]
    unreadable: dict[str, Unreadable]


type Candidates = Mapping[bytes, Sequence[Candidate]]
"""By key, in the envelope's order."""


def match(
    envelope: Envelope,
    observed_at: int,
    candidates: Candidates,
    subscribers: Mapping[str, Subscriber],
    takes_own: TakesOwn,
) -> Matches:
    """What the rules in force make of an envelope: of active subscriptions, and perhaps of pending ones."""
    matches = Matches({}, {})
    wants = network(envelope.network).wants
    of_pending = SubscriptionStatus.PENDING in statuses_in_force(envelope.network)

    def wanted(rule: Rule) -> Wanted:
        return wants(envelope, rule, observed_at)

    for key, of_key in candidates.items():
        for candidate, subscriber in _in_force(of_key, subscribers, pending=of_pending):
            rule = Rule(key, candidate.condition)
            one = read_row(partial(_match, wanted, takes_own, subscriber), rule)
            if isinstance(one, Unreadable):
                matches.unreadable[subscriber.subscription_id] = one
                continue
            first = matches.found.get(subscriber.subscription_id)
            matches.found[subscriber.subscription_id] = _combine(first, one) if first else one
    return matches


def unconfirmed(candidates: Candidates, subscribers: Mapping[str, Subscriber], matched: Collection[str]) -> set[str]:
    """Active subscriptions known only by rules that are not in force: the index may lag behind a replaced set."""
    named = {candidate.subscription_id for of_key in candidates.values() for candidate in of_key}
    return {name for name in named.difference(matched) if name in subscribers and subscribers[name].active}


def _match(wanted: Callable[[Rule], Wanted], takes_own: TakesOwn, subscriber: Subscriber, rule: Rule) -> Match:
    """The network knows an own message, the app whether its clients are pushed it."""
    first = wanted(rule)
    if first is not Wanted.OWN_MESSAGE or not takes_own(subscriber.app):
        return Match(subscriber, rule.key, first)
    return Match(subscriber, rule.key, wanted(rule._replace(takes_own=True)), own=True)


def _in_force(
    candidates: Iterable[Candidate], subscribers: Mapping[str, Subscriber], *, pending: bool
) -> Iterator[tuple[Candidate, Subscriber]]:
    for candidate in candidates:
        subscriber = subscribers.get(candidate.subscription_id)
        if subscriber is None or subscriber.generation != candidate.generation:
            continue
        if subscriber.active or (pending and subscriber.pending):
            yield candidate, subscriber


def _combine(first: Match, other: Match) -> Match:
    """Of two rules of one subscription, in the order of their keys: the first key that pushes, the least rank."""
    best = min(first, other, key=lambda one: one.wanted.rank)
    return best._replace(key=first.key) if first.wanted.pushes else best
