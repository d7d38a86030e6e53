import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from clarion.clock import now_ms
from clarion.networks.statements.rules import key_of
from clarion.tables import rule_key
from ingest.filter.candidates import CandidateFilter
from ingest.filter.fingerprints import of_key
from ingest.filter.rule_feed import EMPTY_PAGES, SCAN_SEGMENTS, NoStreamError, RuleFeed, StreamsClient
from ingest.wiring import AwsClients
from tests.ingest.conftest import SENDER, WriteRule

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TOPIC, OTHER = b"\x70" * 32, b"\x71" * 32


@pytest.fixture
def candidates() -> CandidateFilter:
    return CandidateFilter()


@pytest.fixture
def feed(clients: AwsClients, candidates: CandidateFilter) -> RuleFeed:
    return RuleFeed(clients.dynamodb, clients.streams, "test-rules", candidates)


def names(candidates: CandidateFilter, *topics: bytes) -> bool:
    return candidates.match_any([of_key(key_of(SENDER, topic)) for topic in topics])


async def follow_until(feed: RuleFeed, holds: Callable[[], bool], seconds: float = 30) -> None:
    following = asyncio.create_task(feed.follow(0.01, 3600, lambda: True))
    try:
        async with asyncio.timeout(seconds):
            while not holds():
                await asyncio.sleep(0.002)
    finally:
        following.cancel()


async def test_rules_from_before_the_start_are_known(
    feed: RuleFeed, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    for number in range(60):
        write_rule(topic=number.to_bytes(32))
    await feed.start()
    assert len(candidates) == 60
    assert all(names(candidates, number.to_bytes(32)) for number in range(60))
    assert not names(candidates, OTHER)
    assert len(candidates.changes) == 0


async def test_a_rule_is_known_by_its_key_whatever_its_generation(
    feed: RuleFeed, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    write_rule(generation=1)
    write_rule(generation=2)
    await feed.start()
    assert len(candidates) == 1
    assert names(candidates, OTHER, TOPIC)
    assert not candidates.match_any([of_key(key_of(OTHER, TOPIC))])
    assert not names(candidates)


async def test_a_rule_written_later_comes_by_the_stream(
    feed: RuleFeed, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    await feed.start()
    write_rule()
    await follow_until(feed, lambda: names(candidates, TOPIC))
    assert candidates.changes.lately([of_key(key_of(SENDER, TOPIC))]) == ["s"]


async def test_once_the_filter_is_fresh_it_knows_every_rule_from_before(
    feed: RuleFeed, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    await feed.start()
    write_rule()
    written_at = now_ms()
    await follow_until(feed, lambda: candidates.fresh_as_of > written_at)
    assert names(candidates, TOPIC)


async def test_a_removed_rule_stays_until_the_table_is_read_again(
    feed: RuleFeed, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    rule = write_rule()
    write_rule(topic=OTHER)
    await feed.start()
    rule.delete()
    written_at = now_ms()
    await follow_until(feed, lambda: candidates.fresh_as_of > written_at)
    assert names(candidates, TOPIC)
    await feed.read()
    assert not names(candidates, TOPIC)
    assert names(candidates, OTHER)


async def test_a_table_without_a_stream_stops_the_start(clients: AwsClients) -> None:
    feed = RuleFeed(clients.dynamodb, clients.streams, "test-leases", CandidateFilter())
    with pytest.raises(NoStreamError):
        await feed.start()


class ShardedStream:
    """Two shards, of which the first ends and has a child; troubles come up as asked."""

    def __init__(self) -> None:
        self.pages: dict[str, list[bytes | None]] = {"parent": [], "other": []}
        self.troubles: list[str] = []
        self.trouble_with = ""
        self.empty_pages = 0
        """How many more pages are empty whatever the shard holds."""
        self.reads = 0

    def describe_stream(self, **request: Any) -> dict[str, Any]:
        names = sorted(self.pages)
        after = request.get("ExclusiveStartShardId", "")
        rest = [name for name in names if name > after]
        shard = {"ShardId": rest[0], "SequenceNumberRange": {}}
        description: dict[str, Any] = {"Shards": [shard]}
        if rest[0] == "child":
            shard["ParentShardId"] = "parent"
        return {"StreamDescription": description | ({"LastEvaluatedShardId": rest[0]} if rest[1:] else {})}

    def get_shard_iterator(self, **request: Any) -> dict[str, Any]:
        start = 0 if request["ShardIteratorType"] == "TRIM_HORIZON" else len(self.pages[request["ShardId"]])
        return {"ShardIterator": f"{request['ShardId']}:{start}"}

    def get_records(self, **request: Any) -> dict[str, Any]:
        if not request["ShardIterator"]:
            raise ParamValidationError(report="an iterator has at least one character")
        self.reads += 1
        shard, place = request["ShardIterator"].split(":")
        if shard.startswith(self.trouble_with):
            with suppress(IndexError):  # two shards may be read at once
                raise ClientError({"Error": {"Code": self.troubles.pop()}}, "GetRecords")
        if self.empty_pages:
            self.empty_pages -= 1
            return {"Records": [], "NextShardIterator": request["ShardIterator"]}
        found = self.pages[shard][int(place) :]
        change = {"ApproximateCreationDateTime": now()}
        keys = [{"subscription_id": {"S": "s"}, "rule_key": {"B": key}} for key in found if key]
        records = [{"eventName": "INSERT", "dynamodb": change | {"Keys": key}} for key in keys]
        ended = None in found
        return {"Records": records} | ({} if ended else {"NextShardIterator": f"{shard}:{int(place) + len(found)}"})


def now() -> datetime:
    return datetime.now(UTC)


async def test_a_shard_that_ends_is_followed_into_its_children(
    clients: AwsClients, candidates: CandidateFilter
) -> None:
    stream: ShardedStream = ShardedStream()
    client: StreamsClient = stream
    feed = RuleFeed(clients.dynamodb, client, "test-rules", candidates)
    await feed.start()
    stream.pages["child"] = [rule_key(1, key_of(SENDER, TOPIC))]
    stream.pages["parent"] += [rule_key(1, key_of(SENDER, OTHER)), None]
    await follow_until(feed, lambda: names(candidates, TOPIC) and names(candidates, OTHER))


async def test_a_shard_that_ends_while_another_cannot_be_read_is_followed_into_its_children_all_the_same(
    clients: AwsClients, candidates: CandidateFilter
) -> None:
    stream = ShardedStream()
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    stream.trouble_with, stream.troubles = "other", ["ProvisionedThroughputExceededException"] * 3
    stream.pages["parent"] += [rule_key(1, key_of(SENDER, OTHER)), None]
    await follow_until(feed, lambda: names(candidates, OTHER) and not stream.troubles)
    stream.pages["child"] = [rule_key(1, key_of(SENDER, TOPIC))]
    await follow_until(feed, lambda: names(candidates, TOPIC))


async def test_no_time_goes_by_between_the_end_of_a_shard_and_its_child(
    clients: AwsClients, candidates: CandidateFilter
) -> None:
    stream = ShardedStream()
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    stream.pages["parent"].append(None)
    written_at = now_ms()
    with pytest.raises(TimeoutError):
        await follow_until(feed, lambda: candidates.fresh_as_of > written_at, seconds=0.3)
    stream.pages["child"] = [rule_key(1, key_of(SENDER, TOPIC))]
    await follow_until(feed, lambda: candidates.fresh_as_of > written_at)
    assert names(candidates, TOPIC)


async def test_a_shard_is_not_read_to_its_end_where_a_page_happens_to_be_empty(
    clients: AwsClients, candidates: CandidateFilter
) -> None:
    stream = ShardedStream()
    del stream.pages["other"]
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    before = candidates.fresh_as_of
    stream.empty_pages = EMPTY_PAGES - 1
    stream.pages["parent"].append(rule_key(1, key_of(SENDER, TOPIC)))
    await follow_until(feed, lambda: candidates.fresh_as_of > before)
    assert names(candidates, TOPIC)


async def test_no_time_goes_by_while_the_stream_cannot_be_read(
    clients: AwsClients, candidates: CandidateFilter
) -> None:
    stream = ShardedStream()
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    before = candidates.fresh_as_of
    stream.troubles = ["ProvisionedThroughputExceededException"] * 20
    await follow_until(feed, lambda: len(stream.troubles) < 5)
    assert candidates.fresh_as_of == before


async def test_while_no_envelope_waits_the_stream_is_left_alone(
    clients: AwsClients, candidates: CandidateFilter
) -> None:
    stream, waits = ShardedStream(), False
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    following = asyncio.create_task(feed.follow(0.01, 3600, lambda: waits))
    async with asyncio.timeout(30):
        while stream.reads < len(stream.pages):
            await asyncio.sleep(0.01)
        stream.pages["other"].append(rule_key(1, key_of(SENDER, TOPIC)))
        await asyncio.sleep(0.1)
        assert stream.reads == len(stream.pages)
        waits = True
        while not names(candidates, TOPIC):
            await asyncio.sleep(0.01)
    following.cancel()


@pytest.mark.parametrize("trouble", ["ExpiredIteratorException", "TrimmedDataAccessException"])
async def test_a_lost_place_in_the_stream_makes_it_read_the_table_again(
    trouble: str, clients: AwsClients, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    stream = ShardedStream()
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    write_rule()  # the stream doesn't show it
    stream.troubles = [trouble]
    await follow_until(feed, lambda: names(candidates, TOPIC))


class TroubledTable:
    """A client of DynamoDB whose scans do first what they are given."""

    def __init__(self, client: "DynamoDBClient") -> None:
        self.describe_table = client.describe_table
        self.first: Callable[[int], None] = lambda _: None
        self._scan = client.scan

    def scan(self, **request: Any) -> Any:
        self.first(request["Segment"])
        return self._scan(**request)


async def test_a_lost_place_in_the_stream_makes_it_read_the_table_until_it_succeeds(
    clients: AwsClients, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    def refuse(segment: int) -> None:
        if segment == 0 and refusals:
            raise ClientError({"Error": {"Code": refusals.pop()}}, "Scan")

    refusals: list[str] = []
    table, stream = TroubledTable(clients.dynamodb), ShardedStream()
    dynamodb: Any = table
    feed = RuleFeed(dynamodb, stream, "test-rules", candidates)
    await feed.start()
    before = candidates.fresh_as_of
    known: list[bool] = []

    def fresh() -> bool:
        if candidates.fresh_as_of > before:
            known.append(names(candidates, TOPIC))
        return bool(known)

    table.first, refusals[:] = refuse, ["ThrottlingException"] * 2
    for number in range(16):  # in all segments
        write_rule(topic=number.to_bytes(32))
    write_rule()  # the stream doesn't show it
    stream.troubles = ["ExpiredIteratorException"]
    await follow_until(feed, fresh)
    assert refusals == []
    assert known == [True]
    assert all(names(candidates, number.to_bytes(32)) for number in range(16))


async def test_of_two_readings_at_once_none_forgets_what_the_other_has_yet_to_come_to(
    clients: AwsClients, candidates: CandidateFilter, write_rule: WriteRule
) -> None:
    numbers, all_started = count(1), threading.Event()
    first_may_end, second_may_end = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        number = next(numbers)
        if number > SCAN_SEGMENTS:
            second_may_end.wait(30)
        elif number == SCAN_SEGMENTS:
            all_started.set()
            first_may_end.wait(30)

    table = TroubledTable(clients.dynamodb)
    dynamodb: Any = table
    feed = RuleFeed(dynamodb, ShardedStream(), "test-rules", candidates)
    topics = [number.to_bytes(32) for number in range(16)]
    for topic in topics:
        write_rule(topic=topic)
    await feed.start()
    table.first = wait
    first = asyncio.create_task(feed.read())
    async with asyncio.timeout(30):
        while not all_started.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # the other segments come back
        second = asyncio.create_task(feed.read())
        await asyncio.sleep(0.1)
        first_may_end.set()
        await first
        assert all(names(candidates, topic) for topic in topics)
        second_may_end.set()
        await second
    assert all(names(candidates, topic) for topic in topics)
