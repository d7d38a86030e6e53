import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from clarion.tables import Rule, rule_key
from ingest.candidates import Candidates
from ingest.clock import now_ms
from ingest.rule_feed import NoStreamError, RuleFeed, StreamsClient
from ingest.task import Clients

SENDER, TOPIC, OTHER = b"\x5e" * 32, b"\x70" * 32, b"\x71" * 32

type Write = Callable[..., Rule]


@pytest.fixture
def candidates() -> Candidates:
    return Candidates()


@pytest.fixture
def feed(clients: Clients, candidates: Candidates) -> RuleFeed:
    return RuleFeed(clients.dynamodb, clients.streams, "test-rules", candidates)


def names(candidates: Candidates, *topics: bytes) -> bool:
    return candidates.match_any(candidates.pairs(SENDER, topics))


async def follow_until(feed: RuleFeed, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        following = asyncio.create_task(feed.follow(0.01))
        while not holds():
            await asyncio.sleep(0.01)
        following.cancel()


async def test_rules_from_before_the_start_are_known(feed: RuleFeed, candidates: Candidates, write_rule: Write) -> None:
    for number in range(60):
        write_rule(topic=number.to_bytes(32))
    await feed.start()
    assert len(candidates) == 60
    assert all(names(candidates, number.to_bytes(32)) for number in range(60))
    assert not names(candidates, OTHER)


async def test_a_rule_is_known_by_its_pair_whatever_its_generation(
    feed: RuleFeed, candidates: Candidates, write_rule: Write
) -> None:
    write_rule(generation=1)
    write_rule(generation=2)
    await feed.start()
    assert len(candidates) == 1
    assert candidates.match_any(candidates.pairs(SENDER, (OTHER, TOPIC)))
    assert not candidates.match_any(candidates.pairs(OTHER, (TOPIC,)))
    assert not candidates.match_any(candidates.pairs(SENDER, ()))


async def test_a_rule_written_later_comes_by_the_stream(
    feed: RuleFeed, candidates: Candidates, write_rule: Write
) -> None:
    await feed.start()
    write_rule()
    await follow_until(feed, lambda: names(candidates, TOPIC))


async def test_once_the_filter_is_fresh_it_knows_every_rule_from_before(
    feed: RuleFeed, candidates: Candidates, write_rule: Write
) -> None:
    await feed.start()
    write_rule()
    written_at = now_ms()
    await follow_until(feed, lambda: candidates.fresh_as_of > written_at)
    assert names(candidates, TOPIC)


async def test_a_removed_rule_stays_until_the_table_is_read_again(
    feed: RuleFeed, candidates: Candidates, write_rule: Write
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


async def test_a_table_without_a_stream_stops_the_start(clients: Clients) -> None:
    feed = RuleFeed(clients.dynamodb, clients.streams, "test-leases", Candidates())
    with pytest.raises(NoStreamError):
        await feed.start()


class ShardedStream:
    """Two shards, of which the first ends and has a child; troubles come up as asked."""

    def __init__(self) -> None:
        self.pages: dict[str, list[bytes | None]] = {"parent": [], "other": []}
        self.troubles: list[str] = []

    def describe_stream(self, **request: Any) -> dict[str, Any]:
        names = sorted(self.pages)
        after = request.get("ExclusiveStartShardId", "")
        rest = [name for name in names if name > after]
        description: dict[str, Any] = {"Shards": [{"ShardId": rest[0], "SequenceNumberRange": {}}]}
        return {"StreamDescription": description | ({"LastEvaluatedShardId": rest[0]} if rest[1:] else {})}

    def get_shard_iterator(self, **request: Any) -> dict[str, Any]:
        start = 0 if request["ShardIteratorType"] == "TRIM_HORIZON" else len(self.pages[request["ShardId"]])
        return {"ShardIterator": f"{request['ShardId']}:{start}"}

    def get_records(self, **request: Any) -> dict[str, Any]:
        if self.troubles:
            raise ClientError({"Error": {"Code": self.troubles.pop()}}, "GetRecords")
        shard, place = request["ShardIterator"].split(":")
        found = self.pages[shard][int(place) :]
        change = {"ApproximateCreationDateTime": now()}
        records = [
            {"eventName": "INSERT", "dynamodb": change | {"Keys": {"rule_key": {"B": key}}}} for key in found if key
        ]
        ended = None in found
        return {"Records": records} | ({} if ended else {"NextShardIterator": f"{shard}:{int(place) + len(found)}"})


def now() -> datetime:
    return datetime.now(UTC)


async def test_a_shard_that_ends_is_followed_into_its_children(clients: Clients, candidates: Candidates) -> None:
    stream: ShardedStream = ShardedStream()
    client: StreamsClient = stream
    feed = RuleFeed(clients.dynamodb, client, "test-rules", candidates)
    await feed.start()
    stream.pages["child"] = [rule_key(1, SENDER, TOPIC)]
    stream.pages["parent"] += [rule_key(1, SENDER, OTHER), None]
    await follow_until(feed, lambda: names(candidates, TOPIC) and names(candidates, OTHER))


async def test_no_time_goes_by_while_the_stream_cannot_be_read(clients: Clients, candidates: Candidates) -> None:
    stream = ShardedStream()
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    before = candidates.fresh_as_of
    stream.troubles = ["ProvisionedThroughputExceededException"] * 20
    await follow_until(feed, lambda: len(stream.troubles) < 5)
    assert candidates.fresh_as_of == before


@pytest.mark.parametrize("trouble", ["ExpiredIteratorException", "TrimmedDataAccessException"])
async def test_a_lost_place_in_the_stream_makes_it_read_the_table_again(
    trouble: str, clients: Clients, candidates: Candidates, write_rule: Write
) -> None:
    stream = ShardedStream()
    feed = RuleFeed(clients.dynamodb, stream, "test-rules", candidates)
    await feed.start()
    write_rule()  # the stream doesn't tell
    stream.troubles = [trouble]
    await follow_until(feed, lambda: names(candidates, TOPIC))
