from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ingest.sources.walletconnect.shown import ShownMessages

STEPS = st.lists(st.tuples(st.sampled_from(["show", "take"]), st.binary(min_size=1, max_size=1)))


def test_a_message_is_new_once() -> None:
    shown = ShownMessages()
    assert shown.show(b"a", lambda: None)
    assert not shown.show(b"a", lambda: None)
    shown.take(b"a")
    assert not shown.show(b"a", lambda: None)


def test_the_oldest_that_the_queue_has_are_forgotten() -> None:
    shown = ShownMessages(remembered=2)
    for message in (b"a", b"b", b"c"):
        shown.show(message, lambda: None)
        shown.take(message)
    assert [shown.show(message, lambda: None) for message in (b"a", b"b", b"c")] == [True, False, False]


@given(STEPS)
def test_each_showing_is_acknowledged_once_and_not_before_the_queue_has_it(steps: list[tuple[str, bytes]]) -> None:
    shown, showings, acknowledged = ShownMessages(), Counter[bytes](), Counter[bytes]()
    on_their_way, taken = set[bytes](), set[bytes]()
    for step, message in steps:
        if step == "show":
            showings[message] += 1
            if shown.show(message, lambda message=message: acknowledged.update([message])):  # type: ignore[misc] # its default binds it
                on_their_way.add(message)
        elif message in on_their_way:
            on_their_way.remove(message)
            shown.take(message)
            taken.add(message)
        assert acknowledged == Counter({one: showings[one] for one in taken})
