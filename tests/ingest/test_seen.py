import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ingest.filter.fingerprints import of_envelope
from ingest.memory.record import Archive, Record
from ingest.memory.seen import SHARED, SeenEnvelopes, UnreadableRecordError
from tests.ingest.conftest import alone

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def seen_of(*handled: int, in_hand: tuple[int, ...] = ()) -> SeenEnvelopes:
    seen = SeenEnvelopes(1000)
    for number in (*handled, *in_hand):
        seen.add(number, 1)
    for number in handled:
        seen.handled(number)
    return seen


def known(seen: SeenEnvelopes, *numbers: int) -> list[bool]:
    return [seen.refresh(number) for number in numbers]


async def test_a_statement_is_new_once() -> None:
    seen = SeenEnvelopes(1000)
    assert not seen.refresh(5)
    assert seen.add(5, 1)
    assert known(seen, 5, 6) == [True, False]
    assert seen.size == 1


async def test_only_what_was_handled_is_recorded() -> None:
    restored = SeenEnvelopes(1000)
    await restored.load(await seen_of(1, 2, in_hand=(3,)).snapshot())
    assert known(restored, 1, 2, 3) == [True, True, False]


async def test_what_is_handled_while_a_snapshot_is_taken_is_in_the_snapshot_or_in_a_delta() -> None:
    numbers = range(1, 5000)
    seen = SeenEnvelopes(10_000)
    for number in numbers:
        seen.add(number, 1)
    taking = asyncio.create_task(seen.snapshot())
    for number in numbers:
        seen.handled(number)
        if number % 50 == 0:
            await asyncio.sleep(0)
    restored = SeenEnvelopes(10_000)
    await restored.load(await taking)
    await restored.load(seen.delta())
    assert all(known(restored, *numbers))


async def test_a_delta_is_given_out_until_it_is_saved() -> None:
    seen = seen_of(1)
    delta = seen.delta()
    assert seen.delta() == delta
    seen.add(2, 1)
    seen.handled(2)
    seen.saved(delta)
    restored = SeenEnvelopes(1000)
    await restored.load(seen.delta())
    assert known(restored, 1, 2) == [False, True]
    seen.saved(seen.delta())
    assert seen.delta() == b""


async def test_what_was_not_shown_in_a_round_is_forgotten_unless_it_is_in_hand() -> None:
    seen = seen_of(1, 2, in_hand=(3,))
    seen.begin_round()
    seen.refresh(2)
    assert await seen.forget() == 1
    assert seen.size == 2
    assert known(seen, 1, 2, 3) == [False, True, True]


async def test_a_flood_makes_no_statement_forgotten() -> None:
    seen = SeenEnvelopes(100)
    assert [seen.add(number, 1) for number in range(1, 101)] == [True] * 50 + [False] * 50
    assert [seen.add(number, SHARED) for number in range(51, 151)] == [True] * 50 + [False] * 50
    assert seen.size == 100
    assert all(known(seen, *range(1, 101)))


async def test_a_node_takes_no_room_from_another() -> None:
    seen = SeenEnvelopes(100, sources=2)
    assert [seen.add(number, 1) for number in range(1, 51)] == [True] * 25 + [False] * 25
    assert [seen.add(number, 2) for number in range(51, 101)] == [True] * 25 + [False] * 25


async def test_a_node_has_its_room_back_once_what_it_showed_is_forgotten() -> None:
    seen = SeenEnvelopes(100)
    for number in range(1, 51):
        seen.add(number, 1)
        seen.handled(number)
    assert not seen.add(51, 1)
    seen.begin_round()
    assert await seen.forget() == 50
    assert seen.add(51, 1)


async def test_what_is_not_remembered_is_not_recorded() -> None:
    seen = SeenEnvelopes(2)
    assert [seen.add(number, 1) for number in (1, 2)] == [True, False]
    seen.handled(1)
    delta = seen.delta()
    seen.handled(2)
    assert seen.delta() == delta


@pytest.mark.parametrize("content", [b"", b"clarion", b"clarion seen 1\n\0", b"clarion seen 2\n\0123"])
async def test_a_record_of_another_kind_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        await SeenEnvelopes(10).load(content)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


async def test_what_is_not_replayed_is_remembered_for_an_hour_or_two_and_what_is_not_followed_for_a_day_or_two(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("ingest.memory.record.time", clock)
    seen = SeenEnvelopes(100)
    followed, other = of_envelope(bytes(32), b"\x07"), of_envelope(bytes(32), b"\x08")
    record = Record(seen, archive, alone(), lambda: False)
    forgetting = asyncio.create_task(record.forget_every(0, {7: []}, 1))

    async def known_after(seconds: float) -> list[int]:
        clock.now += seconds
        for _ in range(2_000):
            await asyncio.sleep(0)
        return [seen.count_of(number) for number in (7, 8)]

    await asyncio.sleep(0)
    for envelope in (followed, other):
        seen.add(envelope, 1)
        seen.handled(envelope)
    assert await known_after(3_601) == [1, 1]
    assert await known_after(3_601) == [0, 1]
    assert await known_after(86_401) == [0, 1]
    assert await known_after(86_401) == [0, 0]
    forgetting.cancel()


@pytest.fixture
def archive(s3: "S3Client") -> Archive:
    return Archive(s3, "oversize", "seen/")


def test_nothing_is_restored_before_there_is_a_base(archive: Archive) -> None:
    assert archive.load() == []
    archive.begin(1)
    archive.write_delta(b"delta")
    assert archive.load() == []


def test_a_base_and_the_deltas_since_its_name_was_taken_are_restored(archive: Archive) -> None:
    archive.begin(3)
    archive.write_delta(b"before")
    name = archive.name_base()
    archive.write_delta(b"meanwhile")
    archive.write_base(name, b"base")
    archive.write_delta(b"after")
    assert archive.load() == [b"base", b"meanwhile", b"after"]


def test_deltas_of_a_new_tenure_count_before_its_base_is_written(archive: Archive) -> None:
    archive.begin(3)
    archive.write_base(archive.name_base(), b"old base")
    archive.begin(4)
    archive.write_delta(b"new delta")
    assert archive.load() == [b"old base", b"new delta"]


def test_what_a_task_saves_that_was_paused_while_another_saved_is_restored_too(
    archive: Archive, s3: "S3Client"
) -> None:
    meanwhile = Archive(s3, "oversize", "seen/")
    archive.begin(9)
    archive.write_base(archive.name_base(), b"first base")
    meanwhile.begin(10)
    meanwhile.write_base(meanwhile.name_base(), b"base")
    archive.write_delta(b"delta")
    assert sorted(archive.load()) == [b"base", b"delta"]
    archive.write_base(archive.name_base(), b"second base")
    assert sorted(archive.load()) == [b"base", b"second base"]


def test_a_new_base_removes_what_came_before_it(archive: Archive, s3: "S3Client") -> None:
    for tenure in (1, 2):
        archive.begin(tenure)
        archive.write_delta(b"delta")
        archive.write_base(archive.name_base(), b"base")
    assert len(s3.list_objects_v2(Bucket="oversize", Prefix="seen/")["Contents"]) == 1


class OvertakenS3:
    """A task writes a base, and removes what was before, just before the first object is read."""

    def __init__(self, client: "S3Client", successor: Archive) -> None:
        self._client = client
        self._successor: Archive | None = successor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_object(self, **request: Any) -> Any:
        if self._successor:
            self._successor.write_base(self._successor.name_base(), b"new base")
            self._successor = None
        return self._client.get_object(**request)


def test_a_base_that_is_replaced_while_it_is_read_gives_way_to_the_new_one(archive: Archive, s3: "S3Client") -> None:
    archive.begin(3)
    archive.write_base(archive.name_base(), b"base")
    archive.write_delta(b"delta")
    overtaken: Any = OvertakenS3(s3, archive)
    assert Archive(overtaken, "oversize", "seen/").load() == [b"new base"]
