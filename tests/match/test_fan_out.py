"""A statement that many want."""

from collections import Counter
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.decisions import PushType
from clarion.messages import Span, StatementMessage
from match.fan_out import Found, cut, successors
from match.matching import Wish
from tests.match.scene import OTHER, PAGE, TOPIC, Scene

MESSAGE = StatementMessage(receipt=uuid4(), observed_at=1, statement=b"\x00")


def wishes(names: list[str]) -> list[Wish]:
    return [Wish(name, 1, PushType.ALERT) for name in names]


names = st.lists(st.uuids().map(str), min_size=1, max_size=40, unique=True).map(sorted)


def pages_of(message: StatementMessage, wanting: dict[bytes, list[str]], page: int) -> list[set[str]]:
    """Work off a fan-out in memory, with pages of that size."""
    taken, waiting = [], [message]
    while waiting:
        message = waiting.pop()
        span = message.span
        found = {}
        for topic, all_names in wanting.items():
            within = [name for name in all_names if span is None or span.after < name <= span.until]
            found[topic] = Found(wishes(within[:page]), more=len(within) > page)
        some = cut(found, span, page)
        taken.append(some.subscription_ids)
        waiting += successors(message, some)
    return taken


@given(names, names, st.integers(1, 10))
def test_every_subscription_is_on_exactly_one_page(one: list[str], other: list[str], page: int) -> None:
    taken = pages_of(MESSAGE, {TOPIC: one, OTHER: other}, page)
    counts = Counter(name for some in taken for name in some)
    assert counts == Counter({*one, *other})
    assert max(len(some) for some in taken) <= page


def test_the_first_look_sends_legs_and_a_leg_sends_its_next_page() -> None:
    found = {TOPIC: Found(wishes([f"{digit}0" for digit in "012"]), more=True)}
    legs = [message.span for message in successors(MESSAGE, cut(found, None, 3))]
    assert [(leg.after, leg.until) for leg in legs if leg] == [
        ("20", "3"),
        *((digit, following) for digit, following in zip("3456789abcde", "456789abcdef", strict=True)),
        ("f", "~"),
    ]
    leg = MESSAGE.model_copy(update={"span": Span(after="3", until="4", page=1, token=UUID(int=7))})
    [rest] = successors(leg, cut({TOPIC: Found(wishes(["31", "32"]), more=True)}, leg.span, 9))
    assert rest.span
    assert (rest.span.after, rest.span.until, rest.span.page) == ("32", "4", 2)


def test_a_full_invocation_passes_a_statement_on_whole() -> None:
    found = {TOPIC: Found(wishes(["1", "2"]), more=False)}
    [rest] = successors(MESSAGE, cut(found, None, 0))
    assert rest.span
    assert (rest.span.after, rest.span.until) == ("", "~")


@pytest.fixture
def crowd(scene: Scene) -> set[str]:
    return {scene.subscribe().subscription_id for _ in range(3 * PAGE)}


def work_off(scene: Scene) -> None:
    while waiting := scene.again():
        assert scene.take(*waiting) == set()


def test_a_crowd_is_told_once_each(scene: Scene, crowd: set[str]) -> None:
    [message] = scene.observe_new(1)
    scene.take(message)
    first = scene.pushes()
    assert len(first) == PAGE
    work_off(scene)
    pushes = first + scene.pushes()
    assert Counter(str(push.subscription_id) for push in pushes) == Counter(crowd)
    assert {push.receipt for push in pushes} == {message.receipt}


def test_a_page_that_is_done_twice_is_passed_on_twice_but_goes_on_once(scene: Scene, crowd: set[str]) -> None:
    [message] = scene.observe_new(1)
    scene.take(message)
    scene.take(message)
    work_off(scene)
    counts = Counter(str(push.subscription_id) for push in scene.pushes())
    assert set(counts) == crowd
    assert sum(counts.values()) == len(crowd) + PAGE


def test_another_receipt_reaches_those_who_came_later(scene: Scene, crowd: set[str]) -> None:
    statement = scene.sender.states()
    scene.take(scene.observe(statement))
    work_off(scene)
    scene.pushes()
    late = {scene.subscribe().subscription_id for _ in range(3)}
    scene.take(scene.observe(statement))
    work_off(scene)
    assert {str(push.subscription_id) for push in scene.pushes()} == late
