"""Token buckets: how often something may be done, exactly, however many ask at once.

A bucket holds `most` tokens and gets `refill` of them at the end of each interval. What is stored grows alone:

    spent     all tokens that were ever taken, and those that a full bucket could not take up
    refilled  all that would have come since 1970:  refill * (now / interval)
    tokens    most - (spent - refilled); most, if spent < refilled

So a token is taken by one conditional update, or two if some were taken lately. Of a notification for a subscriber it is
the notification itself: see `notifications`.
https://github.com/WalletConnect/notify-server/blob/main/src/rate_limit (the sizes)
"""

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import BUCKETS
from clarion.tables import update_if

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


class BucketSize(NamedTuple):
    """`interval` is in milliseconds."""

    name: str
    most: int
    interval: int
    refill: int


NOTIFY_OF_PROJECT = BucketSize("notify_project", 20, _SECOND, 2)
NOTIFY_OF_SUBSCRIBER = BucketSize("notify_subscriber", 50, _HOUR, 2)
SUBSCRIBERS_GET = BucketSize("subscribers_get", 5, _SECOND, 1)
SUBSCRIBERS_POST = BucketSize("subscribers_post", 100, _SECOND, 100)
SUBSCRIBE_TOPIC = BucketSize("subscribe_topic", 100, _MINUTE, 1)
WELCOME = BucketSize("welcome", 100, _MINUTE, 1)
MARK_ALL_AS_READ = BucketSize("mark_all_as_read", 100, _MINUTE, 1)
LINK = BucketSize("link", 20, _SECOND, 2)
SUBSCRIBE_OF_CLIENT = BucketSize("subscribe_client", 500, _DAY, 100)
SUBSCRIBE_OF_PROJECT = BucketSize("subscribe_project", 50_000, _SECOND, 1)
UPDATE_OF_TOPIC = BucketSize("update_topic", 100, _SECOND, 1)
WATCH_OF_CLIENT = BucketSize("watch_client", 100, _SECOND, 1)
LISTS_OF_ACCOUNT = BucketSize("lists_account", 500, 10 * _SECOND, 1)
"""Of whatever is answered with all of an account's subscriptions, or sends them to its watchers. Not the shipped server's:
each takes a query for each subscription, agreement keys cost nothing, and there may be a subscription to every app.
"""
KEY_SERVER_REQUESTS = BucketSize("key_server_requests", 1_000, _SECOND, 20)
"""Of looking up identity keys, over all wallets: whoever makes up keys has no more of them looked up than that."""
HISTORY_OF_TOPIC = BucketSize("history_topic", 100, _SECOND // 2, 1)
"""Of getting notifications, and of marking them as read."""


class TokenBucket(Model):
    class Meta:
        table_name = BUCKETS

    key = UnicodeAttribute(hash_key=True)
    spent = NumberAttribute()
    ttl = NumberAttribute()


def take(size: BucketSize, whose: str, now: int, tokens: int = 1) -> bool:
    """Whether there were so many, which are now taken; `now` is in UNIX milliseconds."""
    row = TokenBucket(f"{size.name} {whose}")
    return any(update_if(row, *actions, condition=condition) for actions, condition in _ways(size, now, tokens))


def _ways(size: BucketSize, now: int, tokens: int) -> Iterator[tuple[list[Action], Condition]]:
    """To take from a full bucket, and from one that is not; what is full is taken from in the first way alone."""
    spent, ttl = TokenBucket.spent, TokenBucket.ttl.set(now // 1000 + _seconds_to_fill(size))
    come = refilled(size, now)
    if tokens <= size.most:
        yield [spent.set(come + tokens), ttl], spent.does_not_exist() | (spent <= come)
        yield [spent.set(spent + tokens), ttl], spent <= come + size.most - tokens


def refilled(size: BucketSize, now: int) -> int:
    """All that would have come until `now`, which is in UNIX milliseconds."""
    return now // size.interval * size.refill


def spent_with_one_more(size: BucketSize, spent: int, now: int) -> int | None:
    """What is spent once another token is taken; None if the bucket is empty. `now` is in UNIX milliseconds."""
    come = refilled(size, now)
    after = max(spent, come) + 1
    return after if after <= come + size.most else None


def _seconds_to_fill(size: BucketSize) -> int:
    """The longest that a bucket has to be remembered."""
    return ceil((size.most / size.refill + 1) * size.interval / 1000)
