"""What matching reads from DynamoDB: eventually consistent, at half a read unit each, unless there is a doubt."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from clarion.channels import Channel
from clarion.decisions import Wanted, SubscriptionStatus
from clarion.messages import Span
from clarion.tables import KEY_BYTES, ByKey, Rule, Subscription, rule_key, split_rule_key
from match.fan_out import Found
from match.faults import Unreadable, asunder, legible
from match.matching import Match, Receiver, Wish, match

BATCH_GET_KEYS = 100
_WITHOUT_TOKEN = ["subscription_id", "client_id", "channel", "status", "generation"]


class Question(NamedTuple):
    """Which rules name this sender and topic (64 bytes); within `span`, if it is given."""

    sender_topic: bytes
    span: Span | None


def rules(question: Question, page: int) -> Found:
    """About a page of rules, of whatever generation."""
    span = question.span
    within = ByKey.subscription_id.between(f"{span.after} ", span.until) if span else None
    wishes: list[Wish] = []
    unreadable: dict[str, Unreadable] = {}
    for rule in Rule.by_key.query(question.sender_topic, within, page_size=page + 1):
        wish = legible(_wish, rule)
        if isinstance(wish, Unreadable):
            unreadable[rule.subscription_id] = wish
            continue
        if len(wishes) >= page and wish.subscription_id != wishes[-1].subscription_id:
            return Found(wishes, more=True, unreadable=unreadable)
        wishes.append(wish)
    return Found(wishes, more=False, unreadable=unreadable)


def receivers(subscription_ids: Sequence[str]) -> dict[str, Receiver | Unreadable]:
    """Those that exist of up to 100 subscriptions, as far as they can be read."""
    return asunder(_receivers, subscription_ids)


def in_force(
    subscription_ids: Iterable[str], sender: bytes, topics: Collection[bytes]
) -> dict[str, Match | Unreadable]:
    """What matches by the tables themselves: rules and subscriptions as they are together at one moment from now on."""
    return asunder(partial(_in_force, sender, topics), sorted(subscription_ids))


def _in_force(sender: bytes, topics: Collection[bytes], subscription_ids: Sequence[str]) -> dict[str, Match]:
    """No request reads both tables, so read again what a change came between, which `revision` tells."""
    found: dict[str, Match] = {}
    rows = _as_they_are(subscription_ids)
    while rows:
        known = {name: _receiver(row) for name, row in rows.items()}
        matches = match(_wishes(known, sender, topics), known)
        now = _as_they_are(rows)
        unmoved = {name for name, row in now.items() if row.revision == rows[name].revision}
        found |= {one.receiver.subscription_id: one for one in matches if one.receiver.subscription_id in unmoved}
        rows = {name: row for name, row in now.items() if name not in unmoved}
    return found


def _wishes(known: Mapping[str, Receiver], sender: bytes, topics: Collection[bytes]) -> dict[bytes, list[Wish]]:
    keys = [(name, rule_key(known[name].generation, sender, topic)) for name in known for topic in topics]
    wishes: dict[bytes, list[Wish]] = {topic: [] for topic in topics}
    for rule in Rule.batch_get(keys, consistent_read=True):
        wishes[split_rule_key(rule.rule_key)[2]].append(_wish(rule))
    return wishes


def _as_they_are(subscription_ids: Iterable[str]) -> dict[str, Subscription]:
    rows = Subscription.batch_get(
        subscription_ids, consistent_read=True, attributes_to_get=[*_WITHOUT_TOKEN, "revision"]
    )
    return {row.subscription_id: row for row in rows}


def _receivers(subscription_ids: Sequence[str]) -> dict[str, Receiver | Unreadable]:
    rows = Subscription.batch_get(subscription_ids, attributes_to_get=_WITHOUT_TOKEN)
    return {row.subscription_id: legible(_receiver, row) for row in rows}


def _wish(rule: Rule) -> Wish:
    generation, _, _ = split_rule_key(rule.rule_key)
    return Wish(rule.subscription_id, generation, Wanted(rule.wanted or Wanted.ALERT))


def _receiver(row: Subscription) -> Receiver:
    """Names and keys are looked at here, before anything is made of them for the whole batch."""
    UUID(row.subscription_id)
    if len(row.client_id) != KEY_BYTES:
        raise ValueError("a client's key has 32 bytes")
    return Receiver(
        row.subscription_id,
        row.client_id,
        Channel(row.channel),
        row.status == SubscriptionStatus.ACTIVE,
        int(row.generation),
    )
