"""What is done with each statement that a node shows: forward it once, or let it go."""

import time
from hashlib import blake2b
from uuid import uuid4

from clarion.metrics import Metric
from ingest.counts import Counts
from ingest.outbox import Letter, Outbox
from ingest.protocol import Origin, Shown
from ingest.settings import FirstReplay


class Intake:
    """Takes in what all nodes show. A statement counts as replayed only while its node's first replay lasts:

    what a later one shows that we don't know has arrived while we were away.
    """

    def __init__(self, outbox: Outbox, counts: Counts, first_replay: FirstReplay) -> None:
        self._outbox = outbox
        self._counts = counts
        self._first_replay = first_replay
        self._seen: set[bytes] = set()

    async def take(self, shown: Shown, *, first_replay: bool) -> None:
        """Take in, then wait until there is room for more."""
        self.take_now(shown, first_replay=first_replay)
        await self._outbox.settle()

    def take_now(self, shown: Shown, *, first_replay: bool) -> None:
        observed_at = time.time_ns() // 1_000_000
        standing = first_replay and shown.origin is not Origin.LIVE and self._first_replay is FirstReplay.RECORD
        for statement in shown.statements:
            self._take(statement, observed_at, standing=standing)
        self._counts[Metric.STATEMENTS_RECEIVED] += len(shown.statements) + shown.unreadable

    def _take(self, statement: bytes, observed_at: int, *, standing: bool) -> None:
        key = blake2b(statement, digest_size=32).digest()
        if key in self._seen:
            return
        self._seen.add(key)
        if standing:
            self._counts[Metric.STATEMENTS_REPLAYED] += 1
            return
        self._counts[Metric.STATEMENTS_FORWARDED] += 1
        self._outbox.add(Letter(uuid4(), observed_at, statement))
