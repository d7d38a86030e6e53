"""Queues that are followed for a token: each a row under its queue key, which is the subscription's id as well.

An index sorts them by when they changed, in buckets: `BUCKETS` of them by their servers, and two more.

    subscribed ──▶ NEWS ──their source writes what became of it──▶ its server's ──given up──▶ ENDED ──a day──▶ gone

So a source reads a server's bucket once, when it begins to follow it, and then only what is new in `NEWS` and `ENDED`.
"""

from collections.abc import Iterator
from hashlib import sha256

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection
from pynamodb.models import Model

from clarion.networks.simplex.addresses import SmpQueue, SmpServer, read_queue
from clarion.networks.simplex.bounds import ENDED_SECONDS
from clarion.networks.simplex.encoding import Reader
from clarion.networks.simplex.needs import BY_BUCKET, BY_TOKEN, OF_SOURCE, OF_WORKER, QUEUES
from clarion.networks.simplex.statuses import QueueStatus

BUCKETS = 16
ENDED, NEWS = BUCKETS, BUCKETS + 1
FOLLOWED = frozenset({QueueStatus.NEW, QueueStatus.PENDING, QueueStatus.ACTIVE, QueueStatus.INACTIVE})
"""The states of those that a source subscribes to when it begins."""
KEPT = FOLLOWED | {QueueStatus.SERVICE}
"""The states in which an agent goes on with a subscription. In another it makes a new one, and forgets this one."""


class QueuesByBucket(GlobalSecondaryIndex["FollowedQueue"]):
    """By when they changed, with all that a source needs."""

    class Meta:
        index_name = BY_BUCKET
        projection = IncludeProjection(list(OF_SOURCE))

    bucket = NumberAttribute(hash_key=True)
    changed_at = NumberAttribute(range_key=True)
    queue_key = BinaryAttribute(legacy_encoding=False)
    queue = BinaryAttribute(legacy_encoding=False)
    notifier_key = BinaryAttribute(legacy_encoding=False)
    token_id = UnicodeAttribute()
    status = UnicodeAttribute()


class QueuesByToken(GlobalSecondaryIndex["FollowedQueue"]):
    """All of a token, ended ones as well."""

    class Meta:
        index_name = BY_TOKEN
        projection = IncludeProjection(list(OF_WORKER))

    token_id = UnicodeAttribute(hash_key=True)
    queue_key = BinaryAttribute(range_key=True, legacy_encoding=False)
    bucket = NumberAttribute()
    ttl = NumberAttribute(null=True)


class FollowedQueue(Model):
    class Meta:
        table_name = QUEUES

    queue_key = BinaryAttribute(hash_key=True, legacy_encoding=False)
    queue = BinaryAttribute(legacy_encoding=False)
    """`SmpQueue.encoded`."""
    notifier_key = BinaryAttribute(legacy_encoding=False)
    """The DER of a private key, sealed and bound to the `queue_key`."""
    token_id = UnicodeAttribute()
    owner_key = BinaryAttribute(legacy_encoding=False)
    """The token's, in DER: a stranger is refused by this row alone. No token's row ever has another."""
    status = UnicodeAttribute()
    """A `QueueStatus`, or what `statuses.refused` made of an error."""
    bucket = NumberAttribute()
    """Its server's, or `NEWS` or `ENDED`."""
    changed_at = NumberAttribute()
    """When the subscription was made, or given up, in UNIX milliseconds: a status alone doesn't change it."""
    ttl = NumberAttribute(null=True)
    """Of one that was given up; of others the token's, while that is dead or waits for its code."""

    by_bucket = QueuesByBucket()
    by_token = QueuesByToken()

    @property
    def ended(self) -> bool:
        """It counts as if it were not there."""
        return bool(self.bucket == ENDED)

    def is_over(self, now: int) -> bool:
        """At `now`, in UNIX milliseconds: then it counts likewise."""
        return bool(self.ttl) and self.ttl <= now // 1000

    def __repr__(self) -> str:
        return f"FollowedQueue({bytes(self.queue_key).hex()})"


def is_free(now: int) -> Condition:
    """That nobody has a queue, at `now`, in UNIX milliseconds."""
    over = FollowedQueue.ttl <= now // 1000
    condition: Condition = FollowedQueue.queue_key.does_not_exist() | (FollowedQueue.bucket == ENDED) | over
    return condition


def ending(now: int) -> list[Action]:
    """What gives a queue up at `now`, in UNIX milliseconds."""
    ttl = now // 1000 + ENDED_SECONDS
    return [FollowedQueue.bucket.set(ENDED), FollowedQueue.changed_at.set(now), FollowedQueue.ttl.set(ttl)]


def bucket_of(server: SmpServer) -> int:
    """All queues of a server are of one, so that one task has one connection to it."""
    return sha256(server.encoded).digest()[0] % BUCKETS


def queue_of(encoded: bytes) -> SmpQueue:
    """Undo `SmpQueue.encoded`. Raises `MalformedSimplex`."""
    reader = Reader(encoded)
    queue = read_queue(reader)
    reader.end()
    return queue


def queues_since(bucket: int, changed_at: int = 0) -> Iterator[FollowedQueue]:
    """Those of the index that were made then or later, as far as it has them, the earliest first."""
    return FollowedQueue.by_bucket.query(bucket, FollowedQueue.changed_at >= changed_at)


def queues_of(token_id: str) -> Iterator[FollowedQueue]:
    """All of a token that it has not given up, as far as the index has them: their keys, and their `ttl`."""
    return (row for row in FollowedQueue.by_token.query(token_id) if not row.ended)
