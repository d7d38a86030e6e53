"""Who wants a statement; no AWS here."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clarion.channels import Channel
from clarion.decisions import Wanted


class Wish(NamedTuple):
    """A rule that names the statement's sender and one of its topics."""

    subscription_id: str
    generation: int
    wanted: Wanted


class Receiver(NamedTuple):
    """A subscription, without its token."""

    subscription_id: str
    client_id: bytes
    channel: Channel
    active: bool
    generation: int


class Match(NamedTuple):
    receiver: Receiver
    topic: bytes
    wanted: Wanted


def match(wishes: Mapping[bytes, Sequence[Wish]], receivers: Mapping[str, Receiver]) -> list[Match]:
    """At most one match for each subscription: that of its first topic, `wishes` being in the statement's order.

    It is a call if any of the subscription's rules makes it one.
    """
    found: dict[str, Match] = {}
    for topic, of_topic in wishes.items():
        for wish, receiver in _in_force(of_topic, receivers):
            first = found.setdefault(wish.subscription_id, Match(receiver, topic, wish.wanted))
            if wish.wanted is Wanted.CALL:
                found[wish.subscription_id] = first._replace(wanted=Wanted.CALL)
    return list(found.values())


def in_doubt(
    wishes: Mapping[bytes, Sequence[Wish]], receivers: Mapping[str, Receiver], matches: Sequence[Match]
) -> set[str]:
    """Active subscriptions known only by rules that are not in force: the index may lag behind a replaced set."""
    matched = {match.receiver.subscription_id for match in matches}
    named = {wish.subscription_id for of_topic in wishes.values() for wish in of_topic}
    return {name for name in named - matched if name in receivers and receivers[name].active}


def _in_force(wishes: Iterable[Wish], receivers: Mapping[str, Receiver]) -> Iterator[tuple[Wish, Receiver]]:
    for wish in wishes:
        receiver = receivers.get(wish.subscription_id)
        if receiver and receiver.active and receiver.generation == wish.generation:
            yield wish, receiver
