from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.simplex.addresses import SmpQueue, SmpServer
from clarion.networks.simplex.items import MOST_ITEMS, MessageArrived, QueueItem, newest_items

SERVER = SmpServer(("a.example", "b.onion"), "5223", bytes(32))
MESSAGE = MessageArrived(b"n" * 24, b"m" * 144)
AT = 1_700_000_000


def item(number: int, read_at: int = AT) -> QueueItem:
    return QueueItem(SmpQueue(SERVER, bytes([number]) * 24), read_at, MESSAGE)


def numbers(joined: bytes) -> list[int]:
    """By the ids of the queues."""
    ids = [text.rpartition("/")[2].partition(" ")[0] for text in joined.decode().split(";")] if joined else []
    return [urlsafe_b64decode(queue_id)[0] for queue_id in ids]


def test_an_item_is_this_text() -> None:
    identity, queue_id, nonce, metadata = "A" * 43 + "=", "BwcH" * 8, "bm5u" * 8, "bW1t" * 48
    assert item(7).text == f"smp://{identity}@a.example,b.onion:5223/{queue_id} 1700000000 {nonce} {metadata}"


def test_the_oldest_stands_first() -> None:
    assert numbers(newest_items([item(2, AT + 2), item(1, AT + 1), item(3, AT + 3)], 9000)) == [1, 2, 3]


def test_each_queue_has_its_newest_item_alone() -> None:
    joined = newest_items([item(1, AT + 3), item(2, AT + 2), item(1, AT)], 9000)
    assert numbers(joined) == [2, 1]
    assert joined.endswith(item(1, AT + 3).text.encode())


def test_of_more_than_six_queues_the_newest_six_are_left() -> None:
    assert numbers(newest_items([item(number, AT + number) for number in range(9)], 9000)) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("count", [1, 2, 6])
def test_as_many_as_fit_and_not_one_byte_more(count: int) -> None:
    several = [item(number, AT + number) for number in range(6)]
    room = count * len(several[0].text) + count - 1
    assert numbers(newest_items(several, room)) == list(range(6 - count, 6))
    assert numbers(newest_items(several, room - 1)) == list(range(7 - count, 6))


@given(
    sent=st.lists(st.tuples(st.integers(0, 9), st.integers(AT, AT + 5)), max_size=20),
    room=st.integers(0, 3000),
)
def test_nothing_newer_is_left_out_for_something_older(sent: list[tuple[int, int]], room: int) -> None:
    joined = newest_items([item(number, at) for number, at in sent], room)
    latest = {number: max(at for other, at in sent if other == number) for number, _ in sent}
    shown = numbers(joined)
    assert len(joined) <= room
    assert len(shown) <= MOST_ITEMS
    assert [latest[number] for number in shown] == sorted(latest[number] for number in shown)
    left_out = [at for number, at in latest.items() if number not in shown]
    assert not shown or not left_out or max(left_out) <= latest[shown[0]]


def test_what_it_says_does_not_show() -> None:
    assert "nnn" not in repr(item(1))
    assert "mmm" not in repr(item(1))
