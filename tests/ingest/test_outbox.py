import asyncio
from collections.abc import Callable, Iterable, Sequence

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given, settings
from hypothesis import strategies as st

from clarion.networks.statements.codec import MAX_SIZE
from ingest.delivery.outbox import BATCH_BYTES, Budget, Outbox, send_forever
from ingest.delivery.outgoing import NAME_BYTES, Outgoing
from tests.ingest.conftest import make_outgoing

AMPLE = 1 << 30


def entry(number: int, *, size: int = 1, source: int = 0) -> Outgoing:
    """Observed at the time `number`, with the fingerprint `number`."""
    return make_outgoing(bytes(size), observed_at=number, fingerprint=number, source=source)


@pytest.fixture
def handled() -> list[int]:
    """The fingerprints that have left the outbox."""
    return []


MOST = 10


def make_outbox(taken: list[int], *, budget: Budget | None = None, linger: float = 0.0) -> Outbox[Outgoing]:
    """An outbox that puts the fingerprints of what was taken into `taken`."""
    return Outbox(
        to="queue",
        budget=budget or Budget(AMPLE),
        most=MOST,
        linger=linger,
        taken=lambda one: taken.append(one.fingerprint),
    )


@settings(max_examples=50)
@given(st.lists(st.integers(0, MAX_SIZE), min_size=1, max_size=30))
def test_a_batch_keeps_to_the_limits_of_sqs_and_the_order(sizes: list[int]) -> None:
    async def drain() -> list[list[Outgoing]]:
        outbox = make_outbox([])
        for number, size in enumerate(sizes):
            outbox.add(make_outgoing(blank[:size], observed_at=number, fingerprint=number))
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
    """Takes entries only after some trouble, as SQS does when it throttles."""

    def __init__(self, troubles: Iterable[Callable[[Sequence[Outgoing]], list[Outgoing]]]) -> None:
        self._troubles = iter(troubles)
        self.taken: list[int] = []

    def send(self, batch: Sequence[Outgoing]) -> list[Outgoing]:
        trouble = next(self._troubles, None)
        failed = trouble(batch) if trouble else []
        self.taken.extend(one.fingerprint for one in batch if one not in failed)
        return failed


def _throttled(batch: Sequence[Outgoing]) -> list[Outgoing]:
    raise ClientError({"Error": {"Code": "ThrottlingException"}}, "SendMessageBatch")


def _unreachable(batch: Sequence[Outgoing]) -> list[Outgoing]:
    raise EndpointConnectionError(endpoint_url="https://queue.example")


def _all_but_the_first(batch: Sequence[Outgoing]) -> list[Outgoing]:
    return list(batch[1:])


@pytest.mark.parametrize("trouble", [_throttled, _unreachable, _all_but_the_first])
async def test_what_sqs_does_not_take_is_held_and_sent_again(
    trouble: Callable[[Sequence[Outgoing]], list[Outgoing]], handled: list[int]
) -> None:
    failing = FailingQueue([trouble, trouble])
    outbox = make_outbox(handled)
    sending = asyncio.create_task(send_forever(outbox, failing.send, 2))
    for number in range(25):
        outbox.add(entry(number))
    await outbox.wait_for_space(0)
    await asyncio.wait_for(outbox.drain(), 30)
    sending.cancel()
    assert sorted(failing.taken) == list(range(25))
    assert sorted(handled) == list(range(25))


async def test_intake_waits_while_the_outbox_is_full(handled: list[int]) -> None:
    outbox = make_outbox(handled, budget=Budget(entry(1).held_size))
    outbox.add(entry(1))
    waiting = asyncio.create_task(outbox.wait_for_space(0))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    outbox.done(await outbox.take())
    await asyncio.wait_for(waiting, 30)


async def test_only_the_node_whose_share_is_full_waits(handled: list[int]) -> None:
    outbox = make_outbox(handled, budget=Budget(4 * entry(1).held_size, sources=2))
    for number in (1, 2):
        outbox.add(entry(number, source=1))
    outbox.add(entry(3, source=2))
    await asyncio.wait_for(outbox.wait_for_space(2), 30)
    waiting = asyncio.create_task(outbox.wait_for_space(1))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    outbox.done(await outbox.take())
    await asyncio.wait_for(waiting, 30)


async def test_nodes_have_their_entries_sent_in_turn(handled: list[int]) -> None:
    """However many one of them has waiting, those of another leave with the next batch."""
    outbox = make_outbox(handled)
    for number in range(1000):
        outbox.add(entry(number, source=1))
    for number in range(2000, 2004):
        outbox.add(entry(number, source=2))
    batch = await outbox.take()
    assert [one.fingerprint for one in batch] == [0, 2000, 1, 2001, 2, 2002, 3, 2003, 4, 5]
    outbox.done(batch, failed=batch[:2])
    assert {one.fingerprint for one in (await outbox.take())[:2]} == {0, 2000}


async def test_a_statement_counts_as_handled_only_when_sqs_has_it(handled: list[int]) -> None:
    outbox = make_outbox(handled)
    outbox.add(entry(1))
    batch = await outbox.take()
    assert (handled, outbox.oldest) == ([], 1)
    outbox.done(batch, failed=batch)
    assert (handled, outbox.oldest) == ([], 1)
    outbox.done(await outbox.take())
    assert (handled, outbox.oldest) == ([1], None)


async def test_a_batch_waits_for_company_until_it_is_full(handled: list[int]) -> None:
    outbox = make_outbox(handled, linger=60)
    taking = asyncio.create_task(outbox.take())
    for number in range(MOST):
        await asyncio.sleep(0.001)
        assert not taking.done()
        outbox.add(entry(number))
    assert len(await asyncio.wait_for(taking, 30)) == MOST


async def test_a_batch_waits_no_longer_than_the_least_patient_of_its_entries(handled: list[int]) -> None:
    def patience(one: Outgoing) -> float:
        return 0.0 if one.fingerprint == 2 else 60.0

    outbox = Outbox[Outgoing](
        to="queue", budget=Budget(AMPLE), most=MOST, linger=0.001, patience=patience, taken=lambda _: None
    )
    outbox.add(entry(1))
    taking = asyncio.create_task(outbox.take())
    await asyncio.sleep(0.05)
    assert not taking.done()
    outbox.add(entry(2))
    assert [one.fingerprint for one in await asyncio.wait_for(taking, 30)] == [1, 2]


async def test_what_is_larger_than_a_batch_leaves_alone(handled: list[int]) -> None:
    outbox = make_outbox(handled)
    names = ("subscription",) * (BATCH_BYTES // NAME_BYTES)
    outbox.add(make_outgoing(observed_at=1, fingerprint=1, names=names))
    outbox.add(entry(2))
    assert [[one.fingerprint for one in await outbox.take()] for _ in range(2)] == [[1], [2]]


async def test_a_batch_that_a_few_large_entries_fill_waits_for_no_more(handled: list[int]) -> None:
    outbox = make_outbox(handled, linger=60)
    for number in range(2):
        outbox.add(entry(number, size=BATCH_BYTES // 2))
    assert len(await asyncio.wait_for(outbox.take(), 30)) == 1


async def test_nothing_lingers_when_all_is_to_leave(handled: list[int]) -> None:
    outbox = make_outbox(handled, linger=60)
    outbox.add(entry(1))
    sending = asyncio.create_task(send_forever(outbox, lambda _: [], 1))
    await asyncio.sleep(0.01)
    await asyncio.wait_for(outbox.drain(), 30)
    sending.cancel()
    assert handled == [1]


async def test_what_goes_from_one_outbox_to_the_next_fills_their_room_until_it_has_left_both(
    handled: list[int],
) -> None:
    budget = Budget(entry(1).held_size)
    second = make_outbox(handled, budget=budget)
    first = Outbox[Outgoing](to="queue", budget=budget, most=MOST, linger=0, taken=second.add)
    first.add(entry(1))
    first.done(await first.take())
    waiting = asyncio.create_task(first.wait_for_space(0))
    await asyncio.sleep(0.01)
    assert (handled, waiting.done()) == ([], False)
    second.done(await second.take())
    await asyncio.wait_for(waiting, 30)
    assert handled == [1]
