from collections.abc import Buffer, Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.xmtp import MalformedEnvelope, TopicMessage, decide, decode
from clarion.networks.xmtp.decision import MessageDecision, Reason, bytes_hashed, decide_message
from clarion.networks.xmtp.envelope import PushMetadata
from clarion.networks.xmtp.sender_hmac import KEY_SIZE_V3, PERIOD_S
from clarion.networks.xmtp.topics import conversation_topic, group_topic, welcome_topic
from clarion.networks.xmtp.wire_pb2 import GroupMessage, NodeEnvelope

type Vector = Mapping[str, Any]
type Scheme = tuple[Callable[[int], bytes], Callable[..., bytes]]

UNKNOWN_FIELDS = b"\xfa\x01\x03abc\xf0\x01\x07"
NS = 1_000_000_000
PERIOD = 700
ROLLOVER_NS = PERIOD * PERIOD_S * NS
OWN, NOT_PUSHABLE = (
    MessageDecision(deliver=False, reason=Reason.OWN_MESSAGE),
    MessageDecision(deliver=False, reason=Reason.NOT_PUSHABLE),
)
SHOULD_PUSH, NO_FLAG = (
    MessageDecision(deliver=True, reason=Reason.SHOULD_PUSH),
    MessageDecision(deliver=True, reason=Reason.NO_FLAG),
)

times = st.integers(0, 2**64 - 1)
keys = st.dictionaries(st.integers(-1, 8000), st.binary(max_size=64), max_size=4)
known_topics = st.sampled_from(
    [group_topic(b"\0" * 16), welcome_topic(b"\0" * 32), conversation_topic("0102"), "other"]
)


def test_decisions_are_those_of_the_reference(decision: Vector) -> None:
    hmac_keys = {int(period): bytes.fromhex(key) for period, key in decision["hmac_keys"].items()}
    decided = decide(bytes.fromhex(decision["envelope"]), hmac_keys)
    assert (decided.deliver, decided.reason) == (decision["deliver"], decision["reason"])


def test_many_subscribers_are_decided_for_as_one_is(decision: Vector) -> None:
    hmac_keys = {int(period): bytes.fromhex(key) for period, key in decision["hmac_keys"].items()}
    message = decode(bytes.fromhex(decision["envelope"]))
    for subscribed in (hmac_keys, {}, hmac_keys):
        assert decide_message(message, subscribed) == decide(bytes.fromhex(decision["envelope"]), subscribed)


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize(
    ("timestamp_ns", "sender_period"),
    [
        (ROLLOVER_NS - 1, PERIOD - 1),
        (ROLLOVER_NS - 1, PERIOD),  # the sender's clock is ahead of the node's
        (ROLLOVER_NS, PERIOD - 1),  # the sender's clock is behind, or the message was long on its way
        (ROLLOVER_NS, PERIOD),
    ],
)
def test_an_own_message_is_known_on_both_sides_of_a_rollover(
    scheme: Scheme, timestamp_ns: int, sender_period: int, *, flag: bool
) -> None:
    key_at, seal = scheme
    envelope = seal(timestamp_ns, key_at(sender_period), should_push=flag)
    near = {period: key_at(period) for period in (PERIOD - 1, PERIOD)}
    assert decide(envelope, near) == OWN
    assert decide(envelope, {sender_period: key_at(sender_period)}) == OWN
    other = {period: key for period, key in near.items() if period != sender_period}
    assert decide(envelope, other) == (SHOULD_PUSH if flag else NOT_PUSHABLE)


@given(timestamp_ns=times, offset=st.integers(-3, 3))
def test_a_key_serves_for_its_period_and_those_beside_it(scheme: Scheme, timestamp_ns: int, offset: int) -> None:
    key_at, seal = scheme
    period = timestamp_ns // NS // PERIOD_S + offset
    decided = decide(seal(timestamp_ns, key_at(period)), {period: key_at(period)})
    assert decided == (OWN if abs(offset) <= 1 else SHOULD_PUSH)


@given(timestamp_ns=times, size=st.integers(0, 70))
def test_a_key_of_another_size_skips_only_the_first_test(scheme: Scheme, timestamp_ns: int, size: int) -> None:
    key_at, seal = scheme
    period = timestamp_ns // NS // PERIOD_S
    usable = len(key_at(period))
    stored = key_at(period)[:size].ljust(size, b"\0")
    for flag, otherwise in ((True, SHOULD_PUSH), (False, NOT_PUSHABLE)):
        envelope = seal(timestamp_ns, stored, should_push=flag)
        assert decide(envelope, {period: stored}) == (OWN if size == usable else otherwise)


@pytest.mark.parametrize("missing", [None, b"", memoryview(b"")])
def test_a_missing_or_empty_key_skips_only_the_first_test(scheme: Scheme, missing: Buffer | None) -> None:
    key_at, seal = scheme
    for flag, otherwise in ((True, SHOULD_PUSH), (False, NOT_PUSHABLE)):
        envelope = seal(ROLLOVER_NS, key_at(PERIOD), should_push=flag)
        assert decide(envelope, {PERIOD: missing}) == otherwise
        assert decide(envelope, {PERIOD - 1: missing, PERIOD: key_at(PERIOD)}) == OWN


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_key_may_be_any_object_with_bytes(scheme: Scheme, kind: Callable[[bytes], Buffer]) -> None:
    key_at, seal = scheme
    assert decide(seal(ROLLOVER_NS, key_at(PERIOD)), {PERIOD: kind(key_at(PERIOD))}) == OWN


def test_a_key_that_hmac_would_pad_to_the_same_is_not_the_key(scheme: Scheme) -> None:
    key_at, seal = scheme
    padded = key_at(PERIOD)[:-10] + bytes(10)
    assert decide(seal(ROLLOVER_NS, padded), {PERIOD: padded}) == OWN
    assert decide(seal(ROLLOVER_NS, padded), {PERIOD: padded[:-10]}) == SHOULD_PUSH
    assert decide(seal(ROLLOVER_NS, padded), {PERIOD: padded + bytes(10)}) == SHOULD_PUSH


@pytest.mark.parametrize(("size", "hashes"), [(1, 0), (31, 0), (32, 1), (33, 0), (1000, 0)])
def test_no_message_is_hashed_for_what_can_be_no_hmac(size: int, hashes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    monkeypatch.setattr("clarion.networks.xmtp.decision.verify", lambda _, covered, __: hashed.append(covered))
    sent = GroupMessage.V1(data=b"data", sender_hmac=bytes(size), should_push=True)
    message = TopicMessage(group_topic(bytes(16)), ROLLOVER_NS, GroupMessage(v1=sent).SerializeToString())
    assert decide_message(message, {PERIOD: bytes(42)}) == SHOULD_PUSH
    assert hashed == [b"data"] * hashes


def test_without_hmac_or_keys_the_flag_alone_decides(scheme: Scheme) -> None:
    key_at, seal = scheme
    for key, hmac_keys in ((None, {PERIOD: key_at(PERIOD)}), (key_at(PERIOD), {})):
        assert decide(seal(ROLLOVER_NS, key, should_push=True), hmac_keys) == SHOULD_PUSH
        assert decide(seal(ROLLOVER_NS, key, should_push=False), hmac_keys) == NOT_PUSHABLE


def test_unknown_fields_change_no_decision(decision: Vector) -> None:
    outer = NodeEnvelope.FromString(bytes.fromhex(decision["envelope"]))
    hmac_keys = {int(period): bytes.fromhex(key) for period, key in decision["hmac_keys"].items()}
    wider = NodeEnvelope(
        content_topic=outer.content_topic, timestamp_ns=outer.timestamp_ns, message=outer.message + UNKNOWN_FIELDS
    )
    assert decide(wider.SerializeToString() + UNKNOWN_FIELDS, hmac_keys).reason == decision["reason"]


@given(raw=st.binary(max_size=300), hmac_keys=keys)
def test_no_bytes_raise_anything_but_the_one_error(raw: bytes, hmac_keys: dict[int, bytes]) -> None:
    try:
        decided = decide(raw, hmac_keys)
    except MalformedEnvelope:
        return
    assert decided.deliver == (decided.reason in {Reason.SHOULD_PUSH, Reason.NO_FLAG})


@given(topic=known_topics, timestamp_ns=times, message=st.binary(max_size=300), hmac_keys=keys)
def test_no_message_in_a_good_envelope_raises(
    topic: str, timestamp_ns: int, message: bytes, hmac_keys: dict[int, bytes]
) -> None:
    envelope = NodeEnvelope(content_topic=topic, timestamp_ns=timestamp_ns, message=message)
    decided = decide(envelope.SerializeToString(), hmac_keys)
    # Nobody guesses an HMAC.
    assert decided.reason is not Reason.OWN_MESSAGE


@given(data=st.data())
def test_a_damaged_message_is_decided_on_and_own_only_if_what_the_hmac_covers_is_whole(
    scheme: Scheme, data: st.DataObject
) -> None:
    key_at, seal = scheme
    outer = NodeEnvelope.FromString(seal(ROLLOVER_NS, key_at(PERIOD)))
    damaged = bytearray(outer.message)
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    outer.message = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    raw = outer.SerializeToString()
    if decide(raw, {PERIOD: key_at(PERIOD)}) == OWN:
        left = decode(raw).push_metadata
        assert left is not None
        assert left.covered in {b"header", b"data"}


@pytest.mark.parametrize("message", [b"", b"\xff", b"\x0a\x05ab", b"\x12\x00", b"\x1a\x00"])
def test_a_group_message_that_cannot_be_read_is_pushed(message: bytes) -> None:
    envelope = NodeEnvelope(content_topic=group_topic(bytes(16)), timestamp_ns=ROLLOVER_NS, message=message)
    assert decide(envelope.SerializeToString(), {PERIOD: bytes(42)}) == NO_FLAG


class Counted(bytes):
    """Counts how much of it is joined to something, as what is to be hashed is to the key."""

    joined = 0

    def __radd__(self, other: bytes) -> bytes:
        self.joined += len(self)
        return other + bytes(self)


@given(
    st.binary(max_size=200),
    st.sampled_from([0, 31, 32, 33]),
    st.dictionaries(st.integers(-1, 5), st.binary(min_size=40, max_size=44), max_size=6),
)
def test_no_decision_hashes_more_than_it_says(data: bytes, hmac_size: int, hmac_keys: dict[int, bytes]) -> None:
    covered = Counted(data)
    message = TopicMessage(group_topic(b"\0" * 16), 2 * PERIOD_S * NS, b"")
    vars(message)["push_metadata"] = PushMetadata(covered, bytes(hmac_size), KEY_SIZE_V3, should_push=True)
    decide_message(message, hmac_keys)
    assert covered.joined <= bytes_hashed(message)


def test_a_stranger_s_hmac_is_tried_with_all_keys_of_a_subscriber() -> None:
    covered = Counted(100)
    message = TopicMessage(group_topic(b"\0" * 16), PERIOD * PERIOD_S * NS, b"")
    vars(message)["push_metadata"] = PushMetadata(covered, bytes(32), KEY_SIZE_V3, should_push=True)
    decide_message(message, {near: bytes(42) for near in (PERIOD - 1, PERIOD, PERIOD + 1)})
    assert covered.joined == bytes_hashed(message) == 300


def test_what_carries_no_hmac_is_not_hashed() -> None:
    assert bytes_hashed(TopicMessage(welcome_topic(b"\0" * 32), NS, bytes(100))) == 0
