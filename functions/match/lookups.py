"""What matching reads from DynamoDB: eventually consistent, at half a read unit each, unless there is a doubt."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from clarion.decisions import NotifyType, PushType, SubscriptionStatus
from clarion.messages import Span
from clarion.tables import BySenderTopic, Rule, Subscription, rule_key, split_rule_key
from match.fan_out import Found
from match.faults import UNREADABLE, Fault, attempt, unreadable
from match.matching import Receiver, Wish

BATCH_GET_KEYS = 100
_WITHOUT_TOKEN = ["subscription_id", "client_id", "notify_type", "status", "generation"]


class Question(NamedTuple):
    """Which rules name this sender and topic (64 bytes); within `span`, if it is given."""

    sender_topic: bytes
    span: Span | None


def rules(question: Question, page: int) -> Found:
    """About a page of rules, of whatever generation."""
    span = question.span
    within = BySenderTopic.subscription_id.between(f"{span.after} ", span.until) if span else None
    wishes: list[Wish] = []
    for rule in Rule.by_sender_topic.query(question.sender_topic, within, page_size=page + 1):
        wish = _wish(rule)
        if len(wishes) >= page and wish.subscription_id != wishes[-1].subscription_id:
            return Found(wishes, more=True)
        wishes.append(wish)
    return Found(wishes, more=False)


def receivers(subscription_ids: Sequence[str]) -> dict[str, Receiver | Fault]:
    """Those that exist of up to 100 subscriptions; a fault stands for one that can't be read.

    One such row spoils the answer for all: then each half is asked for by itself, down to the one.
    """
    try:
        rows = list(Subscription.batch_get(subscription_ids, attributes_to_get=_WITHOUT_TOKEN))
    except UNREADABLE as error:
        if len(subscription_ids) == 1:
            return {subscription_ids[0]: unreadable(error)}
        middle = len(subscription_ids) // 2
        return receivers(subscription_ids[:middle]) | receivers(subscription_ids[middle:])
    return {row.subscription_id: attempt(_receiver, row) for row in rows}


def in_force(
    subscription_ids: Collection[str], sender: bytes, topics: Collection[bytes]
) -> tuple[dict[bytes, list[Wish]], dict[str, Receiver]]:
    """As the tables themselves have it now: the rules that name the sender and a topic, and the subscriptions."""
    rows = Subscription.batch_get(subscription_ids, consistent_read=True, attributes_to_get=_WITHOUT_TOKEN)
    known = {row.subscription_id: _receiver(row) for row in rows}
    keys = [(name, rule_key(known[name].generation, sender, topic)) for name in known for topic in topics]
    wishes: dict[bytes, list[Wish]] = {topic: [] for topic in topics}
    for rule in Rule.batch_get(keys, consistent_read=True):
        wishes[split_rule_key(rule.rule_key)[2]].append(_wish(rule))
    return wishes, known


def _wish(rule: Rule) -> Wish:
    generation, _, _ = split_rule_key(rule.rule_key)
    return Wish(rule.subscription_id, generation, PushType(rule.push_type or PushType.ALERT))


def _receiver(row: Subscription) -> Receiver:
    return Receiver(
        row.subscription_id,
        row.client_id,
        NotifyType(row.notify_type),
        row.status == SubscriptionStatus.ACTIVE,
        int(row.generation),
    )
