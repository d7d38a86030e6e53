from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.xmtp.decision import Reason, decide
from clarion.networks.xmtp.rules import MAX_KEYS, TopicCondition, key_of, pack, topic_of, unpack
from clarion.networks.xmtp.sender_hmac import PERIOD_S
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE

type Scheme = tuple[Callable[[int], bytes], Callable[..., bytes]]

V2_KEY, V3_KEY = bytes(range(32)), bytes(range(42))
PACKED_KEY = b"\0\0\0\7\x20" + bytes(42)
NS = 1_000_000_000

usable = st.one_of(st.binary(min_size=32, max_size=32), st.binary(min_size=42, max_size=42))
periods = st.integers(0, 2**32 - 1)
conditions = st.builds(
    TopicCondition, hmac_keys=st.dictionaries(periods, usable, max_size=MAX_KEYS), silent=st.booleans()
)
near = st.integers(696, 704)


@given(condition=conditions)
def test_a_condition_is_read_as_it_was_packed(condition: TopicCondition) -> None:
    packed = pack(condition)
    assert unpack(packed) == condition
    assert len(packed) <= 142


@given(packed=st.binary(max_size=150))
def test_bytes_are_a_condition_or_refused(packed: bytes) -> None:
    try:
        condition = unpack(packed)
    except ValueError:
        return
    assert unpack(pack(condition)) == condition


@given(condition=conditions, data=st.data())
def test_a_truncated_condition_is_refused_or_has_fewer_keys(condition: TopicCondition, data: st.DataObject) -> None:
    packed = pack(condition)
    cut = packed[: data.draw(st.integers(0, max(0, len(packed) - 1)))]
    try:
        left = unpack(cut)
    except ValueError:
        return
    assert left.hmac_keys.items() <= condition.hmac_keys.items()


@pytest.mark.parametrize(
    "packed",
    [
        b"\2",
        b"\1\0",
        b"\0" + PACKED_KEY[:-1],
        b"\0" + PACKED_KEY + b"\0",
        b"\0" + PACKED_KEY.replace(b"\x20", b"\x1f"),
        b"\0" + b"".join(bytes([period]) + PACKED_KEY[1:] for period in range(4)),
    ],
)
def test_what_is_no_condition_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"condition|key"):
        unpack(packed)


def test_a_condition_that_says_nothing_is_empty() -> None:
    assert pack(TopicCondition()) == b""
    assert unpack(b"") == TopicCondition()


@pytest.mark.parametrize(
    "hmac_keys", [{1: b""}, {1: bytes(33)}, {-1: V2_KEY}, {2**32: V2_KEY}, dict.fromkeys(range(4), V2_KEY)]
)
def test_a_condition_takes_no_other_keys(hmac_keys: dict[int, bytes]) -> None:
    with pytest.raises(ValueError, match="key"):
        TopicCondition(hmac_keys)


def test_a_client_that_subscribes_again_replaces_the_keys_it_names() -> None:
    first = TopicCondition().renewed({699: V2_KEY, 700: V2_KEY, 701: V2_KEY}, silent=False, period=700)
    later = first.renewed({701: V3_KEY, 702: V3_KEY}, silent=True, period=701)
    assert later == TopicCondition({700: V2_KEY, 701: V3_KEY, 702: V3_KEY}, silent=True)
    assert later.renewed({}, silent=False, period=701) == TopicCondition(later.hmac_keys, silent=False)


def test_an_empty_key_takes_away_the_one_before_it() -> None:
    condition = TopicCondition({700: V3_KEY, 701: V3_KEY})
    assert condition.renewed({700: b""}, silent=False, period=700) == TopicCondition({701: V3_KEY})


@given(
    asked=st.lists(st.tuples(near, st.dictionaries(periods | near, st.binary(max_size=50) | usable, max_size=9))),
    period=near,
)
def test_a_condition_stays_within_three_periods(asked: list[tuple[int, dict[int, bytes]]], period: int) -> None:
    condition = TopicCondition()
    for at, named in asked:
        condition = condition.renewed(named, silent=False, period=at)
        assert all(abs(number - at) <= 1 for number in condition.hmac_keys)
    assert condition.pruned(period).hmac_keys.keys() == condition.hmac_keys.keys() & {period - 1, period, period + 1}


def test_a_key_serves_in_its_period_and_the_next_and_then_goes(scheme: Scheme) -> None:
    key_at, seal = scheme
    condition = TopicCondition({700: key_at(700)})
    for period, kept in ((699, True), (700, True), (701, True), (702, False)):
        envelope = seal(period * PERIOD_S * NS, key_at(700))
        before, after = (decide(envelope, one.hmac_keys).reason for one in (condition, condition.pruned(period)))
        assert before is after
        assert (before is Reason.OWN_MESSAGE) is kept
        assert bool(condition.pruned(period).hmac_keys) is kept


def test_a_key_names_its_topic() -> None:
    topics = ["/xmtp/mls/1/g-00ff/proto", "/xmtp/0/m-é/proto", "x" * MAX_TOPIC_SIZE]
    assert [topic_of(key_of(topic)) for topic in topics] == topics
    assert all(one != other for one, other in pairwise(map(key_of, topics)))


def test_keys_do_not_show_in_a_repr() -> None:
    assert repr(TopicCondition({700: b"k" * 32}, silent=True)) == "TopicCondition(silent=True)"
