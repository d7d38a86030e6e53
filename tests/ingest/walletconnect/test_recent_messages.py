from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.walletconnect.recent_messages import MOST_REPEATED, RecentMessages

STEPS = st.lists(st.tuples(st.sampled_from(["add", "queued"]), st.binary(min_size=1, max_size=1)))


def test_a_message_is_new_once() -> None:
    recent = RecentMessages()
    assert recent.add(b"a", lambda: None)
    assert not recent.add(b"a", lambda: None)
    recent.queued(b"a")
    assert not recent.add(b"a", lambda: None)


def test_the_oldest_that_the_queue_has_are_forgotten() -> None:
    recent = RecentMessages(remembered=2)
    for message in (b"a", b"b", b"c"):
        recent.add(message, lambda: None)
        recent.queued(message)
    assert [recent.add(message, lambda: None) for message in (b"a", b"b", b"c")] == [True, False, False]


def test_however_often_a_message_comes_before_the_queue_has_it_so_many_acknowledgements_wait() -> None:
    recent, acknowledged = RecentMessages(), list[int]()
    for number in range(3 * MOST_REPEATED):
        recent.add(b"a", lambda number=number: acknowledged.append(number))  # type: ignore[misc] # its default binds it
    recent.queued(b"a")
    assert acknowledged == [*range(MOST_REPEATED)]


@given(STEPS)
def test_each_showing_is_acknowledged_once_and_not_before_the_queue_has_it(steps: list[tuple[str, bytes]]) -> None:
    recent, showings, acknowledged = RecentMessages(), Counter[bytes](), Counter[bytes]()
    on_their_way, taken = set[bytes](), set[bytes]()
    for step, message in steps:
        if step == "add":
            showings[message] += 1
            if recent.add(message, lambda message=message: acknowledged.update([message])):  # type: ignore[misc] # its default binds it
                on_their_way.add(message)
        elif message in on_their_way:
            on_their_way.remove(message)
            recent.queued(message)
            taken.add(message)
        assert acknowledged == Counter({one: showings[one] for one in taken})
