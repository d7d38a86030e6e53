"""How many pushes one subscription gets, by however many workers and senders."""

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from clarion.limiter import SUBSCRIPTION_CAP, fits
from clarion.tables import RateLimit
from match.caps import MAX_BLOCK, Caps, block_size, blocks
from match.worker import MatchClients
from tests.match.dictionary import Dictionary
from tests.match.meter import meter
from tests.match.scene import NOW, Scene, Sender

CAP = SUBSCRIPTION_CAP
WORKERS = 30
SUBSCRIPTION = str(UUID(int=7))
PACES = {"at once": 0, "for minutes": 150}
"""Milliseconds from one statement to the next."""


@dataclass
class Crowd:
    """Workers that are fed statements for one subscription, in batches that overlap in time as the lot has it."""

    workers: list[Caps]
    batch: int
    lot: random.Random
    passed: list[int] = field(default_factory=list)
    too_soon: int = 0

    def feed(self, times: list[int]) -> None:
        waiting, working = times[::-1], dict[int, list[int]]()
        while waiting or working:
            number = self.lot.randrange(len(self.workers))
            if number not in working:
                size = min(self.lot.randint(1, self.batch), len(waiting))
                working[number] = [waiting.pop() for _ in range(size)]
            self._go_on(number, working)

    def _go_on(self, number: int, working: dict[int, list[int]]) -> None:
        if working[number]:
            self._ask(self.workers[number], working[number].pop(0))
        else:
            self.workers[number].publish(NOW)
            del working[number]

    def _ask(self, caps: Caps, at: int) -> None:
        if caps.full(SUBSCRIPTION, at):
            self.too_soon += fits(self.passed, CAP, at)
        else:
            caps.add(SUBSCRIPTION, at)
            insort(self.passed, at)

    @property
    def fullest(self) -> int:
        return max(bisect_left(self.passed, at + CAP.window) - number for number, at in enumerate(self.passed))


@pytest.fixture
def crowds(scene: Scene) -> Iterator[Dictionary]:
    table = Dictionary()
    with table.answering(scene.clients):
        yield table


def crowd(clients: MatchClients, workers: int, batch: int, seed: int) -> Crowd:
    return Crowd(
        [Caps(clients.dynamodb, CAP, max(WORKERS, workers)) for _ in range(workers)], batch, random.Random(seed)
    )


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("workers", [1, 10, 30])
def test_never_fewer_than_the_cap_pass_and_not_twice_as_many(
    scene: Scene, crowds: Dictionary, workers: int, batch: int, pace: int
) -> None:
    some = crowd(scene.clients, workers, batch, seed=workers + batch + pace)
    with meter.running() as bill:
        some.feed([NOW + number * pace for number in range(900)])
    assert some.too_soon == 0
    assert CAP.count <= some.fullest <= 2 * CAP.count
    assert bill.writes <= 0.1 * len(some.passed)


STREAMS: dict[str, Callable[[random.Random], int]] = {
    "late and live": lambda lot: NOW - lot.choice((0, 600_000)) + lot.randrange(1_000),
    "a backlog of minutes": lambda lot: NOW - lot.randrange(20 * CAP.window),
}


@pytest.mark.parametrize("workers", [1, 10])
@pytest.mark.parametrize("time", STREAMS.values(), ids=STREAMS)
def test_late_statements_between_live_ones_make_no_room_in_either_window(
    scene: Scene, crowds: Dictionary, time: Callable[[random.Random], int], workers: int
) -> None:
    some = crowd(scene.clients, workers, batch=10, seed=workers)
    times = [time(some.lot) for _ in range(10 * CAP.count)]
    with meter.running() as bill:
        some.feed(times)
    assert some.too_soon == 0
    assert some.fullest <= 2 * CAP.count
    assert bill.writes <= 0.1 * len(some.passed)


def test_what_was_forgotten_of_a_subscription_is_read_again(scene: Scene, crowds: Dictionary) -> None:
    some = crowd(scene.clients, 1, batch=10, seed=1)
    minutes = [NOW - number * CAP.window for number in range(20)]
    some.feed([at for at in minutes for _ in range(CAP.count)])
    passed = len(some.passed)
    some.feed([at for at in reversed(minutes) for _ in range(20)])
    assert len(some.passed) - passed <= 20, "less than what a worker may hold back"


@pytest.mark.parametrize(("concurrency", "size"), [(2, 10), (30, 10), (50, 6), (1_000, 1)])
def test_all_workers_together_hold_back_less_than_a_cap(concurrency: int, size: int) -> None:
    assert block_size(CAP.count, concurrency) == size


def test_a_pace_below_the_cap_is_never_capped_in_whatever_order_it_comes(scene: Scene, crowds: Dictionary) -> None:
    some = crowd(scene.clients, workers=8, batch=10, seed=1)
    times = [NOW - 3_000_000 + number * 200 for number in range(600)]
    late = [at for at in times if some.lot.random() < 0.3]
    some.feed([at for at in times if at not in set(late)] + late)
    assert len(some.passed) == 600


def test_a_subscription_with_fewer_than_a_block_in_a_window_costs_nothing(scene: Scene, crowds: Dictionary) -> None:
    caps = Caps(scene.clients.dynamodb, CAP, WORKERS)
    with meter.running() as bill:
        for number in range(100):
            at = NOW + number * CAP.window // (MAX_BLOCK - 1) + number
            assert not caps.full(SUBSCRIPTION, at)
            caps.add(SUBSCRIPTION, at)
            caps.publish(at)
    assert bill.writes == 0


def test_blocks_are_no_longer_than_a_window_and_hold_all() -> None:
    times = sorted(random.Random(3).choices(range(500_000), k=200))
    parts = list(blocks(times, CAP.window))
    assert [at for part in parts for at in part] == times
    assert all(part[-1] - part[0] < CAP.window for part in parts)


def test_a_count_without_an_answer_holds_up_no_push_and_is_not_written_twice(scene: Scene) -> None:
    def refuse(**_: object) -> Any:
        return AWSResponse("", 400, HTTPHeaders(), None), {"Error": {"Code": "ThrottlingException", "Message": ""}}

    caps = Caps(scene.clients.dynamodb, CAP, WORKERS)
    scene.clients.dynamodb.meta.events.register_first("before-call.dynamodb", refuse)
    try:
        for number in range(2 * MAX_BLOCK):
            caps.add(SUBSCRIPTION, NOW + number)
        caps.publish(NOW)
        assert not caps.full(SUBSCRIPTION, NOW)
    finally:
        scene.clients.dynamodb.meta.events.unregister("before-call.dynamodb", refuse)
    with meter.running() as bill:
        caps.add(SUBSCRIPTION, NOW)
        caps.publish(NOW)
    assert bill.writes == 0


# ---- through match --------------------------------------------------------------------------------------------------


@pytest.fixture
def capped(scene: Scene) -> Scene:
    """Matched with a cap of 20."""
    return replace(scene, settings=scene.settings.model_copy(update={"subscription_cap": 20}))


def test_many_senders_can_put_no_more_than_the_cap_on_one_phone(capped: Scene) -> None:
    phone, client_id = str(uuid4()), uuid4().bytes * 2
    senders = [replace(capped, sender=Sender()) for _ in range(60)]
    for sender in senders:
        sender.subscribe(subscription_id=phone, client_id=client_id)
    messages = [message for sender in senders for message in sender.observe_new(1)]
    for some in range(0, 60, 10):
        assert capped.take(*messages[some : some + 10]) == set()
    queued = len(capped.pushes())
    assert 20 <= queued <= 40
    assert capped.take(*messages[:10]) == set()
    assert len(capped.pushes()) == 10, "a retry passes, and counts once"
    with meter.running() as bill:
        capped.take(*messages[50:])
    assert capped.pushes() == []
    assert bill.writes == 0, "a flood writes nothing"
    capped.clock.advance(60)
    later = [message for sender in senders[:10] for message in sender.observe_new(1)]
    capped.take(*later)
    assert len(capped.pushes()) == 10


def test_the_second_phone_of_a_client_has_a_cap_of_its_own(capped: Scene) -> None:
    client_id = uuid4().bytes * 2
    first, second = str(uuid4()), str(uuid4())
    senders = [replace(capped, sender=Sender()) for _ in range(30)]
    for number, sender in enumerate(senders):
        sender.subscribe(subscription_id=first, client_id=client_id)
        if number >= 25:
            sender.subscribe(subscription_id=second, client_id=client_id)
    for sender in senders:
        capped.take(*sender.observe_new(1))
    names = [str(push.subscription_id) for push in capped.pushes()]
    assert names.count(second) == 5
    assert names.count(first) == 20


def test_a_capped_second_phone_stays_capped_when_it_is_tried_again(capped: Scene) -> None:
    client_id = uuid4().bytes * 2
    first, second = (capped.subscribe(client_id=client_id).subscription_id for _ in range(2))
    others = [replace(capped, sender=Sender()) for _ in range(3)]
    for other in others:
        other.subscribe(subscription_id=second, client_id=client_id)
        capped.take(*other.observe_new(10))
    capped.pushes()
    messages = capped.observe_new(1)
    for _ in range(4):
        capped.take(*messages)
        assert [str(push.subscription_id) for push in capped.pushes()] == [first]


def test_what_is_capped_eats_none_of_its_pairs_budget(capped: Scene) -> None:
    phone = capped.subscribe()
    for _ in range(3):
        capped.take(*capped.observe_new(10))
    capped.pushes()
    row = RateLimit.get(capped.pair(phone.client_id), b"\x00")
    assert len(row.admitted) == 20 * 14
    assert row.cooldowns is None
