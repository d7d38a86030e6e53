"""How a busy task's turns are divided among addresses."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ntf.bounds import Peer
from ntf.pace import Pace
from ntf.settings import NtfBounds
from ntf.turns import Turns

UNHURRIED = 1e9


def turns_of(at_once: int = 1, per_second: float = UNHURRIED, burst: int = 1) -> Turns[Peer]:
    return Turns(at_once, Pace(per_second, burst))


def peer() -> Peer:
    return Peer.of("192.0.2.1", NtfBounds())


async def _served(turns: Turns[Peer], asked: list[tuple[Peer, int]]) -> list[int]:
    """The numbers of those that ask for a turn, in the order in which they get it."""
    order: list[int] = []

    async def ask(number: int) -> None:
        who, cost = asked[number]
        async with turns.turn(who, cost):
            order.append(number)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for number in range(len(asked)):
            tasks.create_task(ask(number))
    return order


@given(costs=st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=12), min_size=2, max_size=5))
def test_while_addresses_wait_none_is_ahead_of_another_by_more_than_one_turn_of_each(costs: list[list[int]]) -> None:
    peers = [peer() for _ in costs]
    asked = [(who, cost) for who, several in zip(peers, costs, strict=True) for cost in several]
    owners = [number for number, several in enumerate(costs) for _ in several]
    order = asyncio.run(_served(turns_of(), asked))
    assert sorted(order) == list(range(len(asked)))
    had, left = Counter[int](), Counter(owners)
    for number in order:
        had[owners[number]] += asked[number][1]
        left[owners[number]] -= 1
        waiting = [each for each in range(len(costs)) if left[each]]
        for one in waiting:
            for other in waiting:
                assert had[one] - had[other] <= 2 * 5


def test_who_comes_to_a_busy_task_is_ahead_of_whoever_has_asked_for_much() -> None:
    loud, quiet = peer(), peer()
    order = asyncio.run(_served(turns_of(), [*[(loud, 1)] * 20, (quiet, 1)]))
    assert order.index(20) <= 1


def test_who_asks_for_little_is_ahead_of_all_that_have_had_nothing_and_ask_for_much() -> None:
    order = asyncio.run(_served(turns_of(), [*((peer(), 240) for _ in range(50)), (peer(), 1)]))
    assert order.index(50) <= 1


def test_who_asks_for_much_has_its_turn_though_others_come_without_end() -> None:
    order = asyncio.run(_arriving_one_after_another(peer()))
    assert order.index("patient") < 2 * 10


async def _arriving_one_after_another(patient: Peer) -> list[str]:
    """As soon as one has its turn, the next one that nobody knows asks for one."""
    turns, order = turns_of(), list[str]()

    async def ask(who: Peer, name: str, cost: int) -> None:
        async with turns.turn(who, cost):
            order.append(name)
            if len(order) < 100:
                tasks.create_task(ask(peer(), "new", 1))
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(ask(peer(), "new", 1))
        tasks.create_task(ask(patient, "patient", 10))
    return order


async def test_who_waits_for_much_keeps_nobody_waiting_whose_turn_the_pace_allows() -> None:
    turns = turns_of(at_once=10, per_second=0.001, burst=5)

    async def ask(cost: int) -> None:
        async with turns.turn(peer(), cost):
            pass

    await ask(2)
    much = asyncio.create_task(ask(5))
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await ask(1)
    assert not much.done()
    much.cancel()


async def test_who_has_no_turn_in_time_gives_up() -> None:
    turns = turns_of(per_second=0.001, burst=1)
    async with turns.turn(peer(), 1):
        pass
    with pytest.raises(TimeoutError):
        async with turns.turn(peer(), 1, within=0.01):
            pass
    assert turns.waiting == 0


def test_so_many_have_their_turn_at_once() -> None:
    async def run() -> int:
        turns, at_work, most = turns_of(at_once=3), 0, 0

        async def work() -> None:
            nonlocal at_work, most
            async with turns.turn(peer(), 1):
                at_work += 1
                most = max(most, at_work)
                await asyncio.sleep(0)
                at_work -= 1

        await asyncio.gather(*(work() for _ in range(10)))
        return most

    assert asyncio.run(run()) == 3


async def test_turns_keep_the_pace_of_what_they_cost() -> None:
    turns, one = turns_of(at_once=10, per_second=100.0, burst=5), peer()
    begun = asyncio.get_running_loop().time()
    await _served(turns, [(one, 5)] * 5)
    assert asyncio.get_running_loop().time() - begun >= 0.15


async def test_who_gives_up_while_it_waits_takes_nobodys_turn() -> None:
    turns, one = turns_of(), peer()

    async def wait() -> None:
        async with turns.turn(one, 1):
            pass

    async with turns.turn(peer(), 1):
        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    waiting[1].cancel()  # its turn has come, but it has not been there since
    async with asyncio.timeout(60):
        await waiting[2]
        await wait()
    assert turns.waiting == 0
