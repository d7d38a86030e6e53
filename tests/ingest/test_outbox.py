import asyncio
from collections.abc import Callable, Sequence
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given, settings
from hypothesis import strategies as st

from clarion.networks.statements.codec import MAX_SIZE
from ingest.letter import Letter
from ingest.outbox import BATCH_BYTES, Outbox, Room, send_forever

AMPLE = 1 << 30


def letter(number: int, *, size: int = 1, node: int = 0) -> Letter:
    """Observed at the time `number`, with the fingerprint `number`."""
    return Letter(uuid4(), number, number, bytes(size), node=node)


@pytest.fixture
def handled() -> list[int]:
    """The fingerprints that have left the outbox."""
    return []


MOST = 10


def make_outbox(taken: list[int], *, room: Room | None = None, linger: float = 0.0, is_open: bool = True) -> Outbox:
    """An outbox that puts the fingerprints of what was taken into `taken`."""
    return Outbox(
        to="queue",
        room=room or Room(AMPLE),
        most=MOST,
        linger=linger,
        gone=lambda one: taken.append(one.fingerprint),
        is_open=is_open,
    )


@settings(max_examples=50)
@given(st.lists(st.integers(0, MAX_SIZE), min_size=1, max_size=30))
def test_a_batch_keeps_to_the_limits_of_sqs_and_the_order(sizes: list[int]) -> None:
    async def drain() -> list[list[Letter]]:
        outbox = make_outbox([])
        for number, size in enumerate(sizes):
            outbox.add(Letter(uuid4(), number, number, blank[:size]))
        batches = []
        while len(outbox):
            batches.append(await outbox.take())
            outbox.done(batches[-1])
        return batches

    blank = bytes(MAX_SIZE)
    batches = asyncio.run(drain())
    assert [one.fingerprint for batch in batches for one in batch] == list(range(len(sizes)))
    for batch in batches:
        assert 0 < len(batch) <= MOST
        assert sum(one.wire_size for one in batch) <= BATCH_BYTES


class FailingQueue:
    """Takes letters only after some trouble, as SQS does when it throttles."""

    def __init__(self, troubles: list[Callable[[Sequence[Letter]], list[Letter]]]) -> None:
        self._troubles = troubles
        self.taken: list[int] = []

    def send(self, batch: Sequence[Letter]) -> list[Letter]:
        failed = self._troubles.pop(0)(batch) if self._troubles else []
        self.taken.extend(one.fingerprint for one in batch if one not in failed)
        return failed


def _throttled(batch: Sequence[Letter]) -> list[Letter]:
    raise ClientError({"Error": {"Code": "ThrottlingException"}}, "SendMessageBatch")


def _unreachable(batch: Sequence[Letter]) -> list[Letter]:
    raise EndpointConnectionError(endpoint_url="https://queue.example")


def _all_but_the_first(batch: Sequence[Letter]) -> list[Letter]:
    return list(batch[1:])


@pytest.mark.parametrize("trouble", [_throttled, _unreachable, _all_but_the_first])
async def test_what_sqs_does_not_take_is_held_and_sent_again(
    trouble: Callable[[Sequence[Letter]], list[Letter]], handled: list[int]
) -> None:
    failing = FailingQueue([trouble, trouble])
    outbox = make_outbox(handled)
    sending = asyncio.create_task(send_forever(outbox, failing.send, 2))
    for number in range(25):
        outbox.add(letter(number))
    await outbox.wait_for_space(0)
    await asyncio.wait_for(outbox.drain(), 30)
    sending.cancel()
    assert sorted(failing.taken) == list(range(25))
    assert sorted(handled) == list(range(25))


async def test_intake_waits_while_the_outbox_is_full(handled: list[int]) -> None:
    outbox = make_outbox(handled, room=Room(letter(1).held_size))
    outbox.add(letter(1))
    waiting = asyncio.create_task(outbox.wait_for_space(0))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    outbox.done(await outbox.take())
    await asyncio.wait_for(waiting, 30)


async def test_only_the_node_whose_share_is_full_waits(handled: list[int]) -> None:
    outbox = make_outbox(handled, room=Room(4 * letter(1).held_size, nodes=2))
    for number in (1, 2):
        outbox.add(letter(number, node=1))
    outbox.add(letter(3, node=2))
    await asyncio.wait_for(outbox.wait_for_space(2), 1)
    waiting = asyncio.create_task(outbox.wait_for_space(1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    outbox.done(await outbox.take())
    await asyncio.wait_for(waiting, 1)


async def test_nodes_have_their_letters_sent_in_turn(handled: list[int]) -> None:
    """However many one of them has waiting, those of another leave with the next batch."""
    outbox = make_outbox(handled)
    for number in range(1000):
        outbox.add(letter(number, node=1))
    for number in range(2000, 2004):
        outbox.add(letter(number, node=2))
    batch = await outbox.take()
    assert [one.fingerprint for one in batch] == [0, 2000, 1, 2001, 2, 2002, 3, 2003, 4, 5]
    outbox.done(batch, failed=batch[:2])
    assert {one.fingerprint for one in (await outbox.take())[:2]} == {0, 2000}


async def test_a_standby_that_one_node_fills_keeps_what_the_others_showed(handled: list[int]) -> None:
    outbox = make_outbox(handled, room=Room(4 * letter(1).held_size, nodes=2), is_open=False)
    for one in (letter(1, node=1), letter(2, node=2), letter(3, node=1)):
        outbox.add(one)
    assert [one.fingerprint for one in outbox.drop_before(10, only_if_full=True)] == [1, 3]
    assert outbox.oldest == 2


async def test_a_statement_counts_as_handled_only_when_sqs_has_it(handled: list[int]) -> None:
    outbox = make_outbox(handled)
    outbox.add(letter(1))
    batch = await outbox.take()
    assert (handled, outbox.oldest) == ([], 1)
    outbox.done(batch, failed=batch)
    assert (handled, outbox.oldest) == ([], 1)
    outbox.done(await outbox.take())
    assert (handled, outbox.oldest) == ([1], None)


async def test_a_standby_keeps_what_the_leader_may_not_have_passed_on(handled: list[int]) -> None:
    outbox = make_outbox(handled, is_open=False)
    for number in range(1, 6):
        outbox.add(letter(number))
    taking = asyncio.create_task(outbox.take())
    assert [one.fingerprint for one in outbox.drop_before(3)] == [1, 2]
    assert (handled, outbox.oldest) == ([], 3)
    assert not taking.done()
    outbox.set_open(is_open=True)
    assert [one.fingerprint for one in await taking] == [3, 4, 5]


async def test_a_batch_waits_for_company_until_it_is_full(handled: list[int]) -> None:
    outbox = make_outbox(handled, linger=60)
    taking = asyncio.create_task(outbox.take())
    for number in range(MOST):
        await asyncio.sleep(0.001)
        assert not taking.done()
        outbox.add(letter(number))
    assert len(await asyncio.wait_for(taking, 30)) == MOST


async def test_a_batch_that_a_few_large_letters_fill_waits_for_no_more(handled: list[int]) -> None:
    outbox = make_outbox(handled, linger=60)
    for number in range(2):
        outbox.add(letter(number, size=BATCH_BYTES // 2))
    assert len(await asyncio.wait_for(outbox.take(), 30)) == 1


async def test_nothing_lingers_when_all_is_to_leave(handled: list[int]) -> None:
    outbox = make_outbox(handled, linger=60)
    outbox.add(letter(1))
    sending = asyncio.create_task(send_forever(outbox, lambda _: [], 1))
    await asyncio.sleep(0.01)
    await asyncio.wait_for(outbox.drain(), 30)
    sending.cancel()
    assert handled == [1]


async def test_what_goes_from_one_outbox_to_the_next_fills_their_room_until_it_has_left_both(
    handled: list[int],
) -> None:
    room = Room(letter(1).held_size)
    second = make_outbox(handled, room=room)
    first = Outbox(to="queue", room=room, most=MOST, linger=0, gone=second.add, is_open=True)
    first.add(letter(1))
    first.done(await first.take())
    waiting = asyncio.create_task(first.wait_for_space(0))
    await asyncio.sleep(0.01)
    assert (handled, waiting.done()) == ([], False)
    second.done(await second.take())
    await asyncio.wait_for(waiting, 30)
    assert handled == [1]
