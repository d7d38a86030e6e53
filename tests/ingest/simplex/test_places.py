"""Which SMP servers may have a connection: none that nobody knows takes what others need."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.simplex.places import STAY_SECONDS, ProvenPlaces, WaitingPlaces


@dataclass(eq=False)
class Claim:
    """A server that asks for a place, and gives it back at once when another needs it."""

    places: WaitingPlaces
    tokens: int = 1
    has_place: bool = False
    gave_way: int = 0
    taking: asyncio.Task[None] | None = field(default=None, repr=False)

    async def ask(self) -> None:
        """And let others go on."""
        self.taking = asyncio.create_task(self._take())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def _take(self) -> None:
        await self.places.take(self)
        self.has_place = True

    def give_way(self) -> None:
        self.gave_way += 1
        self.leave()

    def leave(self) -> None:
        self.has_place = False
        self.places.give_back(self)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def asking(places: WaitingPlaces, *tokens: int) -> list[Claim]:
    claims = [Claim(places, count) for count in tokens]
    for claim in claims:
        await claim.ask()
    return claims


async def make_way(places: ProvenPlaces) -> None:
    places.make_way()
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def having(claims: list[Claim]) -> list[int]:
    return [number for number, claim in enumerate(claims) if claim.has_place]


async def test_unproven_servers_take_turns_in_the_order_in_which_they_came() -> None:
    claims = await asking(WaitingPlaces(2), 1, 1, 1, 9, 1)
    seen = [having(claims)]
    for leaving in (0, 1, 2):
        claims[leaving].leave()
        await asyncio.sleep(0)
        seen.append(having(claims))
    assert seen == [[0, 1], [1, 2], [2, 3], [3, 4]]


async def test_of_two_proven_servers_the_one_of_more_tokens_has_the_place() -> None:
    places = ProvenPlaces(2, 0, Clock())
    claims = await asking(places, 1, 5, 3)
    await make_way(places)
    assert having(claims) == [1, 2]
    assert [claim.gave_way for claim in claims] == [1, 0, 0]


async def test_any_number_of_servers_of_fewer_tokens_push_nobody_out_whose_place_is_not_for_turns() -> None:
    clock = Clock()
    places = ProvenPlaces(3, 1, clock)
    claims = await asking(places, 21, 21, *[20] * 50)
    for _ in range(10):
        clock.now += STAY_SECONDS
        await make_way(places)
        assert having(claims)[:2] == [0, 1]


async def test_a_person_with_twenty_phones_keeps_nobody_from_being_reached() -> None:
    """They fill all places with servers that two of their tokens use: nothing more is possible with as many."""
    clock = Clock()
    places = ProvenPlaces(500, 100, clock)
    strangers = await asking(places, *[2] * 500)
    popular, own = await asking(places, 3, 1)
    clock.now += STAY_SECONDS
    for _ in range(3):
        await make_way(places)
    assert popular.has_place
    assert own.has_place
    assert sum(claim.gave_way for claim in strangers) == 2


async def test_each_has_a_place_in_its_turn_and_keeps_it_for_its_time() -> None:
    clock = Clock()
    places = ProvenPlaces(1, 1, clock)
    claims = await asking(places, 9, 1, 1)
    seen = []
    for _ in range(4):
        (holder,) = having(claims)
        seen.append(holder)
        await make_way(places)
        assert having(claims) == [holder]
        clock.now += STAY_SECONDS
        await make_way(places)
        await claims[holder].ask()
    assert seen == [0, 1, 2, 0]


async def test_a_place_that_comes_free_goes_to_the_one_of_most_tokens() -> None:
    places = ProvenPlaces(1, 0, Clock())
    claims = await asking(places, 9, 1, 4, 4)
    claims[0].leave()
    await asyncio.sleep(0)
    assert having(claims) == [2]


async def test_whoever_stops_waiting_keeps_nobody_from_a_place() -> None:
    places = ProvenPlaces(1, 0, Clock())
    first, second, third = await asking(places, 1, 1, 1)
    assert second.taking
    second.taking.cancel()
    await asyncio.sleep(0)
    first.leave()
    await asyncio.sleep(0)
    assert third.has_place


@given(st.lists(st.tuples(st.sampled_from(["ask", "leave", "way", "later"]), st.integers(0, 7)), max_size=60))
def test_there_are_never_more_than_the_bound_and_no_place_is_free_while_one_waits(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        clock = Clock()
        places = ProvenPlaces(3, 1, clock)
        claims = [Claim(places, number % 4) for number in range(8)]
        for step, number in steps:
            claim = claims[number]
            if step == "ask" and (claim.taking is None or (claim.taking.done() and not claim.has_place)):
                await claim.ask()
            elif step == "leave" and claim.has_place:
                claim.leave()
            elif step == "way":
                await make_way(places)
            elif step == "later":
                clock.now += STAY_SECONDS
            await asyncio.sleep(0)
            assert len(having(claims)) == len(places) <= 3
            assert len(places) == 3 or not places.waiting
        for claim in claims:
            if claim.taking:
                claim.taking.cancel()

    asyncio.run(run())
