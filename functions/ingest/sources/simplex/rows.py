"""The rows of queues, as the index of buckets has them: read page by page, each in a thread."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import batched

from clarion.metrics import Metric
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.queues import ENDED, FollowedQueue, queue_of, queues_since
from ingest.counts import Counts
from ingest.sources.simplex.queues import WatchedQueue

_PAGE = 500

log = logging.getLogger(__name__)


async def read_rows(bucket: int, counts: Counts, since: int = 0) -> AsyncIterator[WatchedQueue]:
    """Those that changed then or later, the earliest first. What nobody can follow is counted. Raise `AWS_ERRORS`."""
    pages = batched(queues_since(bucket, since), _PAGE, strict=False)
    while page := await asyncio.to_thread(_read_page, pages):
        for row in page:
            if row:
                yield row
            else:
                counts[Metric.INTERNAL_ERRORS] += 1


def read_ended(since: int) -> list[tuple[bytes, int]]:
    """The keys of those that were given up then or later, each with when. Blocks; raises `AWS_ERRORS`."""
    return [(bytes(row.queue_key), int(row.changed_at)) for row in queues_since(ENDED, since)]


def _read_page(pages: "Iterator[tuple[FollowedQueue, ...]]") -> list[WatchedQueue | None]:
    """Empty at the end."""
    return list(map(watched, next(pages, ())))


def watched(row: FollowedQueue) -> WatchedQueue | None:
    """None, which is logged, for one that nobody can follow: its queue can't be read, or an attribute is missing."""
    try:
        return _watched(row)
    except (MalformedSimplex, TypeError):
        log.warning("queue not readable", extra={"queue_key": bytes(row.queue_key).hex()})
        return None


def _watched(row: FollowedQueue) -> WatchedQueue:
    queue = queue_of(bytes(row.queue))
    return WatchedQueue(
        key=bytes(row.queue_key),
        server=queue.server,
        notifier_id=queue.notifier_id,
        sealed_key=bytes(row.notifier_key),
        # Many rows have the same, and each is in memory for as long as it is followed.
        token_id=sys.intern(row.token_id),
        status=sys.intern(row.status),
        changed_at=int(row.changed_at),
    )
