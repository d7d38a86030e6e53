"""The record of what was handled: saved in S3 by one task, and bounded by what the sources still hold.

    <prefix><tenure>-<number>-base     everything handled before the number was given out
    <prefix><tenure>-<number>-delta    what was handled since the last delta

`tenure` is when the task began to save, in UNIX milliseconds; names sort by it and then by `number`. A new base removes
what sorts before it, and all that is left is read. So nothing is lost if two tasks save for a while, or if one that was
paused saves again under its old tenure.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from ingest.filter.fingerprints import NETWORKS
from ingest.lease.shards import Shards
from ingest.memory.seen import SeenEnvelopes
from ingest.sources.replays import Replays

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

DELTAS_PER_BASE = 1000
BASE_SECONDS = 86_400.0
"""The age of a base at which it is written anew, so that no expiry of old objects can take it."""
UNREPLAYED_SECONDS = 3_600.0
"""Where no source of a network replays, what none has shown for so long is forgotten: all show the same within minutes."""
UNFOLLOWED_SECONDS = 86_400.0
"""After which a network that is not followed is forgotten. Once it is followed again, it may be replayed."""
_BASE, _DELTA = "base", "delta"
_DELETED_AT_ONCE = 1000

log = logging.getLogger(__name__)


class Archive:
    """Blocks while it talks to S3, and raises what the SDK raises."""

    def __init__(self, s3: "S3Client", bucket: str, prefix: str) -> None:
        self._s3 = s3
        self._bucket = bucket
        self._prefix = prefix
        self._tenure = 0
        self._number = 0

    def load(self) -> list[bytes]:
        """All bases and deltas that are there; empty if there has never been a base."""
        while True:
            try:
                return [self._s3.get_object(Bucket=self._bucket, Key=key)["Body"].read() for key in self._saved()]
            except self._s3.exceptions.NoSuchKey:
                continue  # whoever saves removes what it has just replaced by a newer base

    def begin(self, tenure: int) -> None:
        self._tenure, self._number = tenure, 0

    def write_delta(self, content: bytes) -> None:
        self._put(self._name(_DELTA), content)

    def name_base(self) -> str:
        """To be taken before the snapshot is, so that the deltas written meanwhile sort after it."""
        return self._name(_BASE)

    def write_base(self, name: str, content: bytes) -> None:
        """Write it and remove what came before."""
        self._put(name, content)
        old = [key for key in self._keys() if key < name]
        for start in range(0, len(old), _DELETED_AT_ONCE):
            objects = [{"Key": key} for key in old[start : start + _DELETED_AT_ONCE]]
            self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})  # type: ignore[typeddict-item] # the stub's TypedDict

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{self._prefix}{self._tenure:013d}-{self._number:08d}-{kind}"

    def _put(self, key: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=key, Body=content)

    def _saved(self) -> list[str]:
        keys = self._keys()
        return keys if any(key.endswith(_BASE) for key in keys) else []

    def _keys(self) -> list[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix)
        return sorted(found["Key"] for page in pages for found in page.get("Contents", []))


class _Round(NamedTuple):
    """Since `began`, as `time.monotonic`, what the replays show of `networks` is noted, so that the rest can be forgotten.

    Without replays it lasts `seconds`.
    """

    networks: Collection[int]
    replays: Sequence[Replays]
    seconds: float
    began: float


class Record:
    """Saves a base when a tenure begins, after something was forgotten, with many deltas, and once a day."""

    def __init__(self, seen: SeenEnvelopes, archive: Archive, shards: Shards, complete: Callable[[], bool]) -> None:
        """`complete`: whether `seen` holds all that stood at the first start. Before, there must be no base."""
        self._seen = seen
        self._archive = archive
        self._shards = shards
        self._complete = complete
        self._saves = False
        self._deltas = 0
        self._wants_base = True
        self._base_at = 0.0

    async def restore(self) -> bool:
        """Whether there was anything to restore. Raise the SDK's errors and `UnreadableRecordError`."""
        saved = await asyncio.to_thread(self._archive.load)
        for content in saved:
            await self._seen.load(content)
        log.info("record restored" if saved else "no record", extra={"envelopes": self._seen.size})
        return bool(saved)

    async def save_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.save()
            except AWS_ERRORS as error:
                log.warning("record not saved", extra={"error": describe(error)})

    async def save(self) -> None:
        """Save what is new, if that is this task's to do. What it doesn't save, the one that does knows from its standby."""
        delta = self._seen.delta()
        if not self._shards.records:
            self._seen.saved(delta)
            self._saves = False
            return
        if not self._saves:
            self._archive.begin(now_ms())
            self._saves = self._wants_base = True
        if delta:
            await asyncio.to_thread(self._archive.write_delta, delta)
            self._seen.saved(delta)
            self._deltas += 1
        if self._complete() and (self._wants_base or self._base_is_old()):
            await self._save_base()

    async def forget_every(self, seconds: float, replays: Mapping[int, Sequence[Replays]], absent_after: float) -> None:
        """Whenever each source of a network has shown in a complete replay all that it holds, forget the network's rest.

        See to it so often. `replays` are by the network's number. A source that has not come to a complete replay for
        `absent_after` seconds, gone or misbehaving, isn't waited for.
        """
        others = [number for number in NETWORKS if number not in replays]
        rounds = [self._begin_round([number], each, UNREPLAYED_SECONDS) for number, each in replays.items()]
        rounds.append(self._begin_round(others, (), UNFOLLOWED_SECONDS))
        while True:
            await asyncio.sleep(seconds)
            for index, current in enumerate(rounds):
                if _is_over(current, absent_after):
                    await self._forget(current.networks)
                    rounds[index] = self._begin_round(current.networks, current.replays, current.seconds)

    def _begin_round(self, networks: Collection[int], replays: Sequence[Replays], seconds: float) -> "_Round":
        began = time.monotonic()
        self._seen.begin_round(networks)
        return _Round(networks, replays, seconds, began)

    async def _forget(self, networks: Collection[int]) -> None:
        forgotten = await self._seen.forget(networks)
        log.info("envelopes forgotten", extra={"forgotten": forgotten, "known": self._seen.size})
        self._wants_base |= forgotten > 0

    def _base_is_old(self) -> bool:
        return self._deltas >= DELTAS_PER_BASE or time.monotonic() - self._base_at > BASE_SECONDS

    async def _save_base(self) -> None:
        name = self._archive.name_base()
        await asyncio.to_thread(self._archive.write_base, name, await self._seen.snapshot())
        self._wants_base = False
        self._base_at = time.monotonic()
        self._deltas = 0
        log.info("record saved", extra={"envelopes": self._seen.size})


def _is_over(current: _Round, absent_after: float) -> bool:
    if not current.replays:
        return time.monotonic() - current.began > current.seconds
    present = [one for one in current.replays if not one.absent(absent_after)]
    return bool(present) and all(one.complete_since >= current.began for one in present)
