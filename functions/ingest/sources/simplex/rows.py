"""The rows of queues, as the index of buckets has them: read page by page, each in a thread."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import batched

from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.queues import ENDED, FollowedQueue, queue_of, queues_since
from ingest.sources.simplex.queues import WatchedQueue

_PAGE = 500

log = logging.getLogger(__name__)


async def read_rows(bucket: int, since: int = 0) -> AsyncIterator[WatchedQueue]:
    """Those that changed then or later, the earliest first. Raise `AWS_ERRORS`."""
    pages = batched(queues_since(bucket, since), _PAGE, strict=False)
    while page := await asyncio.to_thread(_read_page, pages):
        for row in page:
            if row:
                yield row


def read_ended(since: int) -> list[bytes]:
    """The keys of those that were given up then or later. Blocks; raises `AWS_ERRORS`."""
    return [bytes(row.queue_key) for row in queues_since(ENDED, since)]


def _read_page(pages: "Iterator[tuple[FollowedQueue, ...]]") -> list[WatchedQueue | None]:
    """Empty at the end."""
    return list(map(watched, next(pages, ())))


def watched(row: FollowedQueue) -> WatchedQueue | None:
    """None, which is logged, for one that nobody can follow."""
    try:
        queue = queue_of(bytes(row.queue))
    except MalformedSimplex:
        log.warning("queue not readable", extra={"queue_key": bytes(row.queue_key).hex()})
        return None
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
