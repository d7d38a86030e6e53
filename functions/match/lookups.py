"""What matching reads from DynamoDB. All reads are eventually consistent, at half a read unit each."""

from collections.abc import Sequence
from typing import NamedTuple

from clarion.decisions import NotifyType, PushType, SubscriptionStatus
from clarion.messages import Span
from clarion.tables import BySenderTopic, Rule, Subscription, split_rule_key
from match.fan_out import Found
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


def receivers(subscription_ids: Sequence[str]) -> dict[str, Receiver]:
    """Those that exist of up to 100 subscriptions."""
    rows = Subscription.batch_get(subscription_ids, attributes_to_get=_WITHOUT_TOKEN)
    return {row.subscription_id: _receiver(row) for row in rows}


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
