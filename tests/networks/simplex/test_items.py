from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.items import MOST_ITEMS, MessageArrived, QueueItem, fitting, joined

SERVER = SmpServer(("a.example", "b.onion"), "5223", bytes(32))
MESSAGE = MessageArrived(b"n" * 24, b"m" * 144)
AT = 1_700_000_000


def item(number: int, read_at: int = AT, host: str = "") -> QueueItem:
    server = replace(SERVER, hosts=(host,)) if host else SERVER
    return QueueItem(SmpQueue(server, bytes([number]) * 24), read_at, MESSAGE)


def test_an_item_is_this_text() -> None:
    identity, queue_id, nonce, metadata = "A" * 43 + "=", "BwcH" * 8, "bm5u" * 8, "bW1t" * 48
    assert item(7).text == f"smp://{identity}@a.example,b.onion:5223/{queue_id} 1700000000 {nonce} {metadata}"


def test_the_oldest_stands_first() -> None:
    assert joined([item(2, AT + 2), item(1, AT + 1)]) == f"{item(1, AT + 1).text};{item(2, AT + 2).text}".encode()


@pytest.mark.parametrize("count", [1, 2, 6])
def test_as_many_as_fit_and_not_one_byte_more(count: int) -> None:
    several = [item(number) for number in range(6)]
    room = len(joined(several[:count]))
    assert list(fitting(several, room)) == several[:count]
    assert list(fitting(several, room - 1)) == several[: count - 1]


@given(hosts=st.lists(st.integers(1, 253), max_size=20), room=st.integers(0, 3000))
def test_the_first_ones_go_first_and_only_what_has_no_room_is_passed_over(hosts: list[int], room: int) -> None:
    items = [item(number, host="h" * length) for number, length in enumerate(hosts)]
    chosen = list(fitting(items, room))
    left = [one for one in items if one not in chosen]
    assert len(joined(chosen)) <= room
    assert len(chosen) <= MOST_ITEMS
    for passed in left:
        before = [one for one in chosen if items.index(one) < items.index(passed)]
        assert len(before) == MOST_ITEMS or len(joined([*before, passed])) > room


def test_what_it_says_does_not_show() -> None:
    assert "nnn" not in repr(item(1))
    assert "mmm" not in repr(item(1))
