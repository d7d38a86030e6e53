"""The relay's topics that Clarion subscribes to, and what each is for.

An index sorts them by when they were added, in `BUCKETS` parts: a source reads all of them once, and then what is new. Those
that have ended stay for a day, in a part of their own by when they ended, so that it unsubscribes from them.
"""

from collections.abc import Iterator
from enum import StrEnum

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import BY_BUCKET, TOPICS
from clarion.tables import find_row

BUCKETS = 15
ENDED = BUCKETS
"""The part of those that have ended."""
_ENDED_SECONDS = 86_400


class TopicKind(StrEnum):
    """To `app` come requests for a subscription, to `subscription` those of its wallets, to `server` those of watchers."""

    APP = "app"
    SUBSCRIPTION = "subscription"
    SERVER = "server"


class ByBucket(GlobalSecondaryIndex["FollowedTopic"]):
    """By when they were added."""

    class Meta:
        index_name = BY_BUCKET
        projection = KeysOnlyProjection()

    bucket = NumberAttribute(hash_key=True)
    added_at = NumberAttribute(range_key=True)
    topic = UnicodeAttribute()


class FollowedTopic(Model):
    """`ref` is an app's domain; of a subscription, domain and account with a space between; of the server, empty.

    `added_at` is in UNIX milliseconds, and when it ended if it has, as `bucket` says. `ttl` is of such.
    """

    class Meta:
        table_name = TOPICS

    topic = UnicodeAttribute(hash_key=True)
    kind = UnicodeAttribute()
    ref = UnicodeAttribute()
    bucket = NumberAttribute()
    added_at = NumberAttribute()
    ttl = NumberAttribute(null=True)

    by_bucket = ByBucket()

    def __repr__(self) -> str:
        return f"FollowedTopic({self.topic})"


class RelaySubscriber(Model):
    """The private key of the client that subscribes to the topics, in one row beside them: see `relay_identity`."""

    class Meta:
        table_name = TOPICS

    topic = UnicodeAttribute(hash_key=True)
    key = BinaryAttribute(legacy_encoding=False)

    def __repr__(self) -> str:
        return "RelaySubscriber()"


def followed(topic: str, kind: TopicKind, ref: str, added_at: int) -> FollowedTopic:
    """The row, which is yet to be written."""
    return FollowedTopic(topic, kind=kind.value, ref=ref, bucket=_bucket_of(topic), added_at=added_at)


def ending(now_ms: int) -> list[Action]:
    """What ends a topic at `now_ms`, in UNIX milliseconds."""
    ttl = now_ms // 1000 + _ENDED_SECONDS
    return [FollowedTopic.bucket.set(ENDED), FollowedTopic.added_at.set(now_ms), FollowedTopic.ttl.set(ttl)]


def find_topic(topic: str) -> FollowedTopic | None:
    """As it is now, unless it has ended."""
    row = find_row(FollowedTopic, topic)
    return None if row is None or row.bucket == ENDED else row


def topics_since(added_at: int = 0) -> Iterator[str]:
    """Those that were added then or later, as far as the index has them."""
    for bucket in range(BUCKETS):
        yield from _since(bucket, added_at)


def ended_since(ended_at: int = 0) -> Iterator[str]:
    """Those that ended then or later, within the last day."""
    return _since(ENDED, ended_at)


def _since(bucket: int, added_at: int) -> Iterator[str]:
    for row in FollowedTopic.by_bucket.query(bucket, FollowedTopic.added_at >= added_at):
        yield row.topic


def subscription_ref(app: str, account: str) -> str:
    return f"{app} {account}"


def split_ref(ref: str) -> tuple[str, str]:
    """Undo `subscription_ref`: app and account."""
    app, _, account = ref.partition(" ")
    return app, account


def _bucket_of(topic: str) -> int:
    return int(topic[:2], 16) % BUCKETS
