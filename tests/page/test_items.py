import json
import pickle
import random
from collections.abc import Iterable
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import EnvelopeObserved, Event, PushTried
from clarion.networks import NETWORKS
from console.page.items import (
    ITEMS_AT_ONCE,
    KEPT_BYTES,
    KEPT_ITEMS,
    KEPT_STEPS,
    STATIONS,
    Fate,
    PageItem,
    RecentItems,
)
from console.why import MEANING
from local.device import Device, topic_of
from tests.page.made_up import PHONES, trail


def lines(*trails: Iterable[Event]) -> list[bytes]:
    return [event.to_line() for event in chain(*trails)]


def words(item: PageItem) -> list[str]:
    return list(dict.fromkeys(mark.word for mark in item.marks))


def test_every_word_of_the_decisions_has_a_station() -> None:
    decisions = {*map(str, EnvelopeDecision), *map(str, NotificationDecision), *map(str, PushDecision)}
    assert decisions | {"observed"} == set(STATIONS)
    assert set(MEANING) <= set(STATIONS)


@pytest.mark.parametrize("seed", range(5))
def test_an_items_way_is_the_same_in_whatever_order_its_events_arrive(seed: int) -> None:
    events = lines(trail(1, at=1_000))
    random.Random(seed).shuffle(events)
    items = RecentItems()

    *_, [item] = [items.add([line]) for line in events]

    assert words(item) == ["matched", "queued", "delivered"]
    assert (item.began, item.marks[-1].fate) == (1_000, Fate.ARRIVED)
    assert {mark.channel for mark in item.marks if mark.word == "delivered"} == set(PHONES)


def test_an_event_that_is_in_the_lake_twice_counts_once() -> None:
    events = lines(trail(1, pushes={Channel.APNS: PushDecision.DELIVERED}))
    [item] = RecentItems().add(events + events)
    assert [mark.count for mark in item.marks] == [1, 1, 1]


def test_a_dropped_envelope_ends_at_match_by_its_word() -> None:
    [item] = RecentItems().add(lines(trail(1, decision=EnvelopeDecision.BAD_SIGNATURE)))
    assert [(mark.word, mark.station, mark.fate) for mark in item.marks] == [("bad_signature", "match", "ended")]


def test_a_push_that_is_tried_again_waits_at_dispatch() -> None:
    [item] = RecentItems().add(lines(trail(1, pushes={Channel.FCM: PushDecision.RETRY})))
    assert (item.marks[-1].station, item.marks[-1].fate) == ("dispatch", "waiting")


def test_a_crowd_is_one_mark_for_each_word() -> None:
    common = {"network": "statements", "receipt": uuid4(), "envelope_id": bytes(32), "channel": Channel.APNS}
    pushes = [
        PushTried(
            **common, at=now_ms(), decision=PushDecision.DELIVERED, subscription_id=uuid4(), attempt=1, latency_ms=9
        )
        for _ in range(500)
    ]
    [item] = RecentItems().add(lines(pushes))
    assert [mark.count for mark in item.marks] == [500]


def test_what_has_no_envelope_is_known_by_its_receipt() -> None:
    receipt = uuid4()
    push = PushTried(
        network="zulip",
        at=now_ms(),
        receipt=receipt,
        decision=PushDecision.DELIVERED,
        subscription_id=uuid4(),
        channel=Channel.APNS,
        attempt=1,
        latency_ms=20,
    )
    items = RecentItems()
    [item] = items.add(lines([push]))
    assert (item.key, item.envelope_id) == (receipt.hex, None)
    assert items.report(item.key) is not None


@pytest.mark.parametrize("kind", [b"limits", b"subscription", b"rules"])
def test_lines_of_other_kinds_are_passed_over(kind: bytes) -> None:
    items = RecentItems()
    assert items.add([b'{"version":1,"network":"statements","at":1,"event":"' + kind + b'"}\n']) == []
    assert items.unreadable == 0


def changed_line(**changes: Any) -> bytes:
    [line] = lines(trail(2, decision=EnvelopeDecision.EXPIRED))
    return json.dumps({**json.loads(line), **changes}).encode()


ODD_LINES = (
    b"no JSON",
    b"",
    b"\n",
    b"\xff\x00",
    b"[]",
    b"null",
    b'{"event":"envelope"}',
    b"[" * 100_000,
    b'{"event":' * 10_000,
    changed_line(event="unheard of"),
    changed_line(network="unheard of"),
    changed_line(network="../statements"),
    changed_line(decision="unheard of"),
    changed_line(at=10**30),
    changed_line(at=-1),
    changed_line(observed_at=10**18),
    changed_line(at="soon"),
    changed_line(receipt="no receipt"),
    changed_line(envelope_id="no hex"),
    changed_line(event="observed", raw="AAAA", network="unheard of"),
    changed_line(event="push", subscription_id=str(uuid4()), attempt=1, latency_ms=10**30, decision="delivered"),
)


@pytest.mark.parametrize("odd", ODD_LINES, ids=lambda line: repr(line[:40]))
def test_an_odd_line_is_counted_and_the_others_are_shown(odd: bytes) -> None:
    items = RecentItems()
    before, after = lines(trail(1)), lines(trail(3))
    assert len(items.add([*before, odd, *after])) == 2
    assert items.unreadable == 1
    assert all(items.report(item["key"]) for some in items.snapshot() for item in some)


@given(
    st.binary(max_size=300) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(repr).map(str.encode)
)
def test_no_line_stops_the_items(odd: bytes) -> None:
    items = RecentItems()
    assert len(items.add([odd, *lines(trail(1))])) == 1


def test_an_unknown_field_is_passed_over() -> None:
    [item] = RecentItems().add([changed_line(unheard_of={"deep": [1]})])
    assert words(item) == ["expired"]


@pytest.mark.parametrize("key", [b"", b"\xff", b"\x00" * 200, b"\x01"])
@pytest.mark.parametrize("network", NETWORKS)
def test_steps_are_shown_even_of_a_rule_that_cannot_be_read(network: str, key: bytes) -> None:
    items = RecentItems()
    changed = [{**json.loads(line), "network": network} for line in lines(trail(1))]
    odd = [{**line, "key": key.hex()} if "key" in line else line for line in changed]
    [item] = items.add(json.dumps(line).encode() for line in odd)
    assert items.report(item.key) is not None


def test_a_crowd_takes_bounded_memory_and_is_counted_whole() -> None:
    count, items, receipt = 10 * KEPT_STEPS, RecentItems(), uuid4()
    common = {"network": "statements", "receipt": receipt, "envelope_id": bytes(32), "channel": Channel.FCM}
    pushes = (
        PushTried(
            **common, at=now_ms(), decision=PushDecision.DELIVERED, subscription_id=uuid4(), attempt=1, latency_ms=9
        )
        for _ in range(count)
    )
    [item] = items.add(lines(pushes))
    why = items.report(item.key)
    assert [mark.count for mark in item.marks] == [count]
    assert why is not None
    assert len(why.traces[0].steps) == KEPT_STEPS
    assert f"{count - KEPT_STEPS} steps more" in why.summary[-1]


def test_what_long_lines_take_is_bounded() -> None:
    items, long = RecentItems(), "x" * (KEPT_BYTES // 10)
    for number in range(25):
        items.add(lines(trail(number, decision=EnvelopeDecision.MALFORMED, reason=long)))
    kept = [item for some in items.snapshot() for item in some]
    assert len(kept) == 9


def test_a_snapshot_has_all_items_in_events_of_a_bounded_size() -> None:
    items = RecentItems()
    items.add(lines(*(trail(number, decision=EnvelopeDecision.UNMATCHED) for number in range(KEPT_ITEMS))))
    sizes = [len(some) for some in items.snapshot()]
    assert (sum(sizes), max(sizes)) == (KEPT_ITEMS, ITEMS_AT_ONCE)


def test_an_items_bytes_are_not_kept() -> None:
    """Else a thousand large ones would fill the memory."""
    raw = Device("Alice, whose bytes are not kept").statement(topic_of("large"), data=b"large" * 100)
    observed = EnvelopeObserved(network="statements", at=2, receipt=uuid4(), observed_at=1, raw=raw)
    items = RecentItems()
    [item] = items.add([observed.to_line()])
    assert words(item) == ["observed"]
    assert raw not in pickle.dumps(items._ways[item.key].tracks)


def test_the_oldest_items_are_forgotten() -> None:
    items = RecentItems()
    for number in range(KEPT_ITEMS + 1):
        changed = items.add(lines(trail(number, decision=EnvelopeDecision.UNMATCHED)))
        if number == 0:
            [oldest] = changed
    assert items.report(oldest.key) is None
