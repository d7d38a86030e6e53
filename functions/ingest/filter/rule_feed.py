"""Keeps the candidate filter fresh: the rules table is read once, then its stream is followed.

Only written rules are followed; removed ones leave the filter when the table is read anew, once a day. Taking in a
rule twice changes nothing, so a shard that turns up is read from its start, and where a place in the stream is lost,
everything starts over.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Streams.html
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from clarion.clock import now_ms
from clarion.faults import describe
from ingest.filter.candidates import CandidateFilter

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SCAN_SEGMENTS = 4
DISCOVERY_SECONDS = 10.0
EMPTY_PAGES = 5
"""A page may be empty though records follow it; only after so many in a row is a shard taken to be read to its end."""
_LONGEST_PAUSE = 60.0
_CLOCK_GRAIN_MS = 1000
"""Records have the time of their writing in whole seconds."""
_PLACE_LOST = {"ExpiredIteratorException", "TrimmedDataAccessException", "ResourceNotFoundException"}

log = logging.getLogger(__name__)


class StreamsClient(Protocol):
    """What is used of boto3's `dynamodbstreams` client."""

    def describe_stream(self, **request: Any) -> dict[str, Any]: ...
    def get_shard_iterator(self, **request: Any) -> dict[str, Any]: ...
    def get_records(self, **request: Any) -> dict[str, Any]: ...


class NoStreamError(Exception):
    """The rules table has no stream, so that new rules could not be known in time."""


@dataclass(slots=True)
class _Shard:
    """`read_through`: UNIX milliseconds up to which its records are in the filter; `iterator` is empty at its end."""

    iterator: str
    read_through: int
    empty_since: deque[int] = field(default_factory=lambda: deque(maxlen=EMPTY_PAGES))
    """When each of the latest pages was asked for that were empty."""

    @property
    def ended(self) -> bool:
        return not self.iterator

    def found_until(self, written: int) -> None:
        self.read_through = max(self.read_through, written)
        self.empty_since.clear()

    def found_nothing(self, asked: int) -> None:
        self.empty_since.append(asked)
        if len(self.empty_since) == EMPTY_PAGES:
            self.read_through = max(self.read_through, self.empty_since[0])


class RuleFeed:
    """`start` reads the table; from then on, `follow` reads its stream."""

    def __init__(
        self, dynamodb: "DynamoDBClient", streams: StreamsClient, table: str, candidates: CandidateFilter
    ) -> None:
        self._dynamodb = dynamodb
        self._streams = streams
        self._table = table
        self._candidates = candidates
        self._shards: dict[str, _Shard] = {}
        self._found: set[str] = set()
        self._parents: set[str] = set()
        self._next_discovery = 0.0
        self._stream = ""
        self._reading = asyncio.Lock()
        """Of two readings at once, the first to end would forget what the second has yet to come to."""

    async def start(self) -> None:
        """Take the place in the stream, then read the table. Raise `NoStreamError` and what the SDK raises."""
        description = await asyncio.to_thread(self._dynamodb.describe_table, TableName=self._table)
        self._stream = description["Table"].get("LatestStreamArn", "")
        if not self._stream:
            raise NoStreamError(self._table)
        began = now_ms()
        self._shards.clear()
        self._found.clear()
        self._parents.clear()
        await asyncio.to_thread(self._discover, "LATEST", began)
        await self.read()
        self._candidates.fresh_as_of = began

    async def read(self) -> None:
        """Read all rules, and drop from the filter what no rule names any more."""
        async with self._reading:
            self._candidates.begin_reading()
            await asyncio.gather(*(self._scan(segment) for segment in range(SCAN_SEGMENTS)))
            for _ in self._candidates.end_reading():
                await asyncio.sleep(0)
        log.info("rules read", extra={"keys": len(self._candidates)})

    async def read_every(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.read()
            except (BotoCoreError, ClientError) as error:
                log.warning("rules not read", extra={"error": describe(error)})

    async def follow(self, pause: float, idle_pause: float, is_awaited: Callable[[], bool]) -> None:
        """Read what is new every `pause` seconds while an envelope waits for it, and every `idle_pause` while none does.

        While that fails, the filter's `fresh_as_of` does not advance.
        """
        next_idle_read = 0.0
        while True:
            await asyncio.sleep(pause)
            if is_awaited() or time.monotonic() >= next_idle_read:
                next_idle_read = time.monotonic() + idle_pause
                await self._read_stream(pause)

    async def _read_stream(self, pause: float) -> None:
        try:
            await self._advance()
        except ClientError as error:
            log.warning("rule stream not read", extra={"error": describe(error)})
            if error.response["Error"]["Code"] in _PLACE_LOST:
                await self._start_over(pause)
        except BotoCoreError as error:
            log.warning("rule stream not read", extra={"error": describe(error)})

    async def _start_over(self, pause: float) -> None:
        """Until it succeeds: what was written before the new place in the stream, only the table shows."""
        while True:
            try:
                await self.start()
            except (BotoCoreError, ClientError) as error:
                log.warning("rules not read", extra={"error": describe(error)})
            else:
                return
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _advance(self) -> None:
        """Read a page of every shard. One that has ended holds `fresh_as_of` back until the stream shows its child."""
        if time.monotonic() >= self._next_discovery:
            await asyncio.to_thread(self._discover, "TRIM_HORIZON", self._candidates.fresh_as_of)
            self._next_discovery = time.monotonic() + DISCOVERY_SECONDS
        readable = [shard for shard in self._shards.values() if not shard.ended]
        outcomes = await asyncio.gather(*map(self._read_page, readable), return_exceptions=True)
        self._leave_ended()
        for failure in filter(None, outcomes):
            raise failure
        if self._shards:
            self._candidates.fresh_as_of = min(shard.read_through for shard in self._shards.values())

    def _leave_ended(self) -> None:
        self._shards = {
            name: shard for name, shard in self._shards.items() if not (shard.ended and name in self._parents)
        }
        if any(shard.ended for shard in self._shards.values()):
            self._next_discovery = 0.0

    async def _read_page(self, shard: _Shard) -> None:
        asked = now_ms()
        page = await asyncio.to_thread(self._streams.get_records, ShardIterator=shard.iterator)
        changes = [record["dynamodb"] for record in page["Records"]]
        for record, change in zip(page["Records"], changes, strict=True):
            if record["eventName"] != "REMOVE":
                keys = change["Keys"]
                self._candidates.change(keys["subscription_id"]["S"], keys["rule_key"]["B"])
        if changes:
            written = changes[-1]["ApproximateCreationDateTime"]
            shard.found_until(int(written.timestamp() * 1000) - _CLOCK_GRAIN_MS)
        else:
            shard.found_nothing(asked)
        shard.iterator = page.get("NextShardIterator") or ""

    async def _scan(self, segment: int) -> None:
        # Through boto3 and only the keys: a model for each of millions of rows would take minutes of this one core.
        place: dict[str, Any] = {}
        while True:
            page = await asyncio.to_thread(
                self._dynamodb.scan,
                TableName=self._table,
                ConsistentRead=True,
                ProjectionExpression="rule_key",
                Segment=segment,
                TotalSegments=SCAN_SEGMENTS,
                **place,
            )
            self._candidates.add(item["rule_key"]["B"] for item in page["Items"])
            if not page.get("LastEvaluatedKey"):
                return
            place = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _discover(self, start: str, read_through: int) -> None:
        """Take up the shards that weren't there before; what they hold was written after `read_through`."""
        for shard in self._described():
            name = shard["ShardId"]
            self._parents.add(shard.get("ParentShardId", ""))
            closed = "EndingSequenceNumber" in shard["SequenceNumberRange"]
            if name in self._found or (start == "LATEST" and closed):
                self._found.add(name)
                continue
            answer = self._streams.get_shard_iterator(StreamArn=self._stream, ShardId=name, ShardIteratorType=start)
            self._shards[name] = _Shard(answer["ShardIterator"], read_through)
            self._found.add(name)

    def _described(self) -> Iterator[dict[str, Any]]:
        place: dict[str, str] = {}
        while True:
            described = self._streams.describe_stream(StreamArn=self._stream, **place)["StreamDescription"]
            yield from described["Shards"]
            if not described.get("LastEvaluatedShardId"):
                return
            place = {"ExclusiveStartShardId": described["LastEvaluatedShardId"]}
