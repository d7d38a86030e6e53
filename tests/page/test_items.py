import random
from collections.abc import Iterable
from itertools import chain
from uuid import uuid4

import pytest

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.events import Event, PushTried
from console.page.items import KEPT_ITEMS, STATIONS, Fate, PageItem, RecentItems
from console.why import MEANING
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
    assert items.tracks(item.key) is not None


def test_lines_of_other_kinds_and_of_a_newer_clarion_are_passed_over() -> None:
    assert RecentItems().add([b'{"event":"limits","network":"statements","at":1}\n', b"no JSON\n"]) == []


def test_the_oldest_items_are_forgotten() -> None:
    items = RecentItems()
    for number in range(KEPT_ITEMS + 1):
        changed = items.add(lines(trail(number, decision=EnvelopeDecision.UNMATCHED)))
        if number == 0:
            [oldest] = changed
    assert items.tracks(oldest.key) is None
