"""What matching reads from DynamoDB. All reads are eventually consistent, at half a read unit each."""

from collections.abc import Sequence

from clarion.decisions import NotifyType, PushType, SubscriptionStatus
from clarion.tables import Rule, Subscription, split_rule_key
from match.matching import Receiver, Wish

BATCH_GET_KEYS = 100
_WITHOUT_TOKEN = ["subscription_id", "client_id", "notify_type", "status", "generation"]


def wishes(sender_topic: bytes) -> list[Wish]:
    """The rules that name this sender and topic (64 bytes), of whatever generation."""
    return [_wish(rule) for rule in Rule.by_sender_topic.query(sender_topic)]


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
