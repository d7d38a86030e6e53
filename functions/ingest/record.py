"""Keeps the record of seen statements: saved in S3 by the leader, and bounded by what the nodes still hold."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from botocore.exceptions import BotoCoreError, ClientError

from ingest.archive import Archive
from ingest.leadership import Leadership
from ingest.node import Node
from ingest.seen import Seen

DELTAS_PER_BASE = 1000
BASE_SECONDS = 86_400.0
"""The age of a base at which it is written anew, so that no expiry of old objects can take it."""

log = logging.getLogger(__name__)


class Record:
    """Saves a base when a tenure begins, after something was forgotten, with many deltas, and once a day."""

    def __init__(self, seen: Seen, archive: Archive, leadership: Leadership, complete: Callable[[], bool]) -> None:
        """`complete`: whether `seen` holds all that stood at the first start. Before, there must be no base."""
        self._seen = seen
        self._archive = archive
        self._leadership = leadership
        self._complete = complete
        self._tenure = 0
        self._deltas = 0
        self._wants_base = True
        self._base_at = 0.0

    async def restore(self) -> bool:
        """Whether there was anything to restore. Raise the SDK's errors and `UnreadableRecordError`."""
        saved = await asyncio.to_thread(self._archive.load)
        for content in saved:
            await self._seen.load(content)
        log.info("record restored" if saved else "no record", extra={"statements": self._seen.size})
        return bool(saved)

    async def save_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.save()
            except (BotoCoreError, ClientError) as error:
                log.warning("record not saved", extra={"error": repr(error)})

    async def save(self) -> None:
        """Save what is new, if this task leads. What a standby lets go of, its leader saves."""
        delta = self._seen.delta()
        if not self._leadership.held:
            self._seen.saved(delta)
            return
        if self._tenure != self._leadership.tenure:
            self._tenure = self._leadership.tenure
            self._archive.begin(self._tenure)
            self._wants_base = True
        if delta:
            await asyncio.to_thread(self._archive.write_delta, delta)
            self._seen.saved(delta)
            self._deltas += 1
        if self._complete() and (self._wants_base or self._base_is_old()):
            await self._save_base()

    def _base_is_old(self) -> bool:
        return self._deltas >= DELTAS_PER_BASE or time.monotonic() - self._base_at > BASE_SECONDS

    async def _save_base(self) -> None:
        name = self._archive.name_base()
        await asyncio.to_thread(self._archive.write_base, name, await self._seen.snapshot())
        self._wants_base = False
        self._base_at = time.monotonic()
        self._deltas = 0
        log.info("record saved", extra={"statements": self._seen.size})

    async def forget_every(self, seconds: float, nodes: Sequence[Node], absent_after: float) -> None:
        """Whenever each node has shown in a complete replay all that it holds, forget the rest; see to it so often.

        A node that has not come to a complete replay for `absent_after` seconds, gone or misbehaving, isn't waited for.
        """
        round_began = time.monotonic()
        self._seen.begin_round()
        while True:
            await asyncio.sleep(seconds)
            present = [node for node in nodes if not node.absent(absent_after)]
            if not present or any(node.complete_since < round_began for node in present):
                continue
            forgotten = await self._seen.forget()
            log.info("statements forgotten", extra={"forgotten": forgotten, "known": self._seen.size})
            self._wants_base |= forgotten > 0
            round_began = time.monotonic()
            self._seen.begin_round()
