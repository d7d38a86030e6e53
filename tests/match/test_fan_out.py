"""An envelope that many want."""

from collections import Counter
from collections.abc import Collection
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.messages import EnvelopeMessage, PageMessage, Span
from clarion.networks import STATEMENTS
from clarion.tables import PushRecord, RuleRow
from match.fan_out import EVERYTHING, FannedOut, cut, successors
from match.matching import Candidate
from match.rule_reader import FoundRules
from tests.match.scene import OTHER, PAGE, TOPIC, Scene

MESSAGE = EnvelopeMessage(network=STATEMENTS, receipt=uuid4(), observed_at=1, raw=b"\x00")


def candidates(names: list[str]) -> list[Candidate]:
    return [Candidate(name, 1) for name in names]


names = st.lists(st.uuids().map(str), min_size=1, max_size=40, unique=True).map(sorted)


def pages_of(
    message: FannedOut, wanting: dict[bytes, list[str]], page: int, named: Collection[str] = ()
) -> list[set[str]]:
    """Work off a fan-out in memory, with pages of that size."""
    taken, waiting = [], [message]
    while waiting:
        message = waiting.pop()
        span = message.span if isinstance(message, PageMessage) else EVERYTHING
        found = {}
        for key, all_names in wanting.items():
            within = [name for name in all_names if span.after < name <= span.until]
            found[key] = FoundRules(candidates(within[:page]), more=len(within) > page)
        some = cut(found, span, page, named)
        taken.append(some.subscription_ids | set(filter(some.covers, named)))
        waiting += successors(message, some)
    return taken


@given(names, names, st.lists(st.uuids().map(str), max_size=20), st.integers(1, 10))
def test_every_subscription_is_on_exactly_one_page(
    one: list[str], other: list[str], unseen: list[str], page: int
) -> None:
    """Also those that the index doesn't show yet."""
    named = {*unseen, *one[:3]}
    taken = pages_of(MESSAGE, {TOPIC: one, OTHER: other}, page, named)
    counts = Counter(name for some in taken for name in some)
    assert counts == Counter({*one, *other, *named})
    assert max(len(some) for some in taken) <= page


def legs_after(*names: str) -> list[tuple[str, str]]:
    """Of a first look that found rules of these, and more."""
    found = {TOPIC: FoundRules(candidates([*names]), more=True)}
    return [(leg.span.after, leg.span.until) for leg in successors(MESSAGE, cut(found, EVERYTHING, len(names)))]


def test_the_first_look_sends_a_leg_for_each_four_pages() -> None:
    assert legs_after("00", "1f") == [("1f", "80"), ("80", "~")]
    assert legs_after("00", "0f") == [("0f", "40"), ("40", "80"), ("80", "c0"), ("c0", "~")]
    assert legs_after("00", "40") == [("40", "~")]


def test_the_larger_a_crowd_the_more_legs_up_to_64() -> None:
    crowds = ["ff", "40", "1f", "0f", "07", "03", "01", "00"]
    assert [len(legs_after("00", f"{last}1")) for last in crowds] == [1, 1, 2, 4, 8, 16, 32, 64]


def test_a_crowd_with_strange_ids_is_gone_through_all_the_same() -> None:
    assert legs_after("", "!")[-1][-1] == "~"
    assert legs_after("", "~") == [("~", "~")]


def test_a_leg_sends_its_next_page() -> None:
    leg = PageMessage(**MESSAGE.observation, span=Span(after="3", until="4"), page=1, token=UUID(int=7))
    [rest] = successors(leg, cut({TOPIC: FoundRules(candidates(["31", "32"]), more=True)}, leg.span, 9))
    assert (rest.span.after, rest.span.until, rest.page) == ("32", "4", 2)


def test_a_full_invocation_passes_a_statement_on_whole() -> None:
    found = {TOPIC: FoundRules(candidates(["1", "2"]), more=False)}
    [rest] = successors(MESSAGE, cut(found, EVERYTHING, 0))
    assert (rest.span.after, rest.span.until) == ("", "~")


@pytest.fixture
def crowd(scene: Scene) -> set[str]:
    return {scene.subscribe().subscription_id for _ in range(3 * PAGE)}


def work_off(scene: Scene) -> None:
    while waiting := scene.again():
        assert scene.take(*waiting) == set()


def test_each_of_a_crowd_gets_one_push(scene: Scene, crowd: set[str]) -> None:
    [message] = scene.observe_new(1)
    scene.take(message)
    first = scene.pushes()
    assert len(first) == PAGE
    work_off(scene)
    pushes = first + scene.pushes()
    assert Counter(str(push.subscription_id) for push in pushes) == Counter(crowd)
    assert {push.receipt for push in pushes} == {message.receipt}


def test_a_crowds_pages_wait_in_a_queue_of_their_own(scene: Scene, crowd: set[str]) -> None:
    scene.take(*scene.observe_new(1))
    assert scene.queues.drain("pages")
    assert not scene.queues.drain("envelopes")


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


def test_the_claims_of_a_crowd_and_of_its_pages_share_no_partition(scene: Scene, crowd: set[str]) -> None:
    keys: list[str] = []

    def claimed(params: dict[str, Any], **_: object) -> None:
        if params["TableName"] == PushRecord.Meta.table_name:
            keys.append(params["Item"][primary]["S"])

    table = boto3.client("dynamodb").describe_table(TableName=PushRecord.Meta.table_name)["Table"]
    [primary] = [key["AttributeName"] for key in table["KeySchema"] if key["KeyType"] == "HASH"]
    scene.clients.dynamodb.meta.events.register_first("before-parameter-build.dynamodb.PutItem", claimed)
    try:
        scene.take(*scene.observe_new(1))
        work_off(scene)
    finally:
        scene.clients.dynamodb.meta.events.unregister("before-parameter-build.dynamodb.PutItem", claimed)
    assert max(Counter(keys).values()) == 1
    assert crowd < set(keys)


def test_a_page_that_ends_elsewhere_when_it_is_done_again_leaves_nobody_out(scene: Scene, crowd: set[str]) -> None:
    """Its successors begin elsewhere, too: they are no surplus of those that were sent before."""
    [message] = scene.observe_new(1)
    scene.take(message)
    first = scene.again()
    removed = [str(push.subscription_id) for push in scene.pushes()]
    earlier = [f"{name[:-1]}{digit}" for name in removed[:1] for digit in "0123456789abcdef" if digit != name[-1]]
    late = {scene.subscribe(subscription_id=name).subscription_id for name in earlier}
    scene.take(message)
    assert scene.take(*first) == set()
    work_off(scene)
    wanting = {rule.subscription_id for rule in RuleRow.by_key.query(scene.key())}
    assert late < wanting
    assert {str(push.subscription_id) for push in scene.pushes()} | {*removed} == wanting
