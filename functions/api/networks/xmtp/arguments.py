"""What a call names: topics, as the keys of rules, and HMAC keys. What breaks a limit is a `CallError`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from api.networks.xmtp.codes import CallCode, CallError
from api.networks.xmtp.limits import check_keys, check_topics
from api.networks.xmtp.notifications_pb2 import Subscription
from clarion.networks.xmtp.rules import NOTHING, key_of
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE, MessageKind, kind_of


def rule_keys(topics: Sequence[str], limit: int) -> list[bytes]:
    """Of the rules for those of at most `limit` topics that pushes come from, each once."""
    check_topics(topics, limit)
    if any(len(topic.encode()) > MAX_TOPIC_SIZE for topic in topics):
        raise CallError(CallCode.INVALID_ARGUMENT, f"a topic has at most {MAX_TOPIC_SIZE} bytes")
    return [key_of(topic) for topic in dict.fromkeys(topics) if kind_of(topic) is not MessageKind.UNKNOWN]


def by_rule_key(named: Sequence[Subscription], limit: int) -> Mapping[bytes, Sequence[Subscription]]:
    """A topic may stand there more than once, and the last word counts."""
    check_topics(named, limit)
    keys = rule_keys([one.topic for one in named], limit)
    for one in named:
        check_keys(one.hmac_keys)
    by_key = defaultdict[bytes, list[Subscription]](list)
    for one in named:
        by_key[key_of(one.topic)].append(one)
    return {key: by_key[key] for key in keys}


def hmac_keys(one: Subscription) -> dict[int, bytes]:
    """By period."""
    return {key.thirty_day_periods_since_epoch: key.key for key in one.hmac_keys}


def newest_period(named: Iterable[Sequence[Subscription]], now: int) -> int | None:
    """The newest period that a usable key is for; `now` is the current one."""
    conditions = (NOTHING.renewed(hmac_keys(one), silent=False, period=now) for of_topic in named for one in of_topic)
    return max((number for condition in conditions for number in condition.hmac_keys), default=None)
