import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.xmtp.envelope import MalformedEnvelope, TopicMessage, decode
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE, conversation_topic
from clarion.networks.xmtp.wire_pb2 import ConversationMessage, NodeEnvelope

type Vector = Mapping[str, Any]

UNKNOWN_FIELDS = b"\xfa\x01\x03abc\xf0\x01\x07"
"""A field 31 of bytes and a field 30 of an integer."""
topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_TOPIC_SIZE // 4)


def test_what_the_sdk_published_reads_as_it_says(sent_v3: Vector) -> None:
    message = decode(bytes.fromhex(sent_v3["envelope"]))
    assert message.topic == sent_v3["content_topic"]
    assert message.timestamp_ns == int(sent_v3["timestamp_ns"])
    assert message.message.hex() == sent_v3["message"]
    assert message.period == sent_v3["period"]
    assert message.kind == sent_v3["message_type"]
    metadata = message.push_metadata
    if sent_v3["message_type"] == "v3-welcome":
        assert metadata is None
        return
    assert metadata is not None
    assert metadata.sender_hmac.hex() == sent_v3["sender_hmac"]
    assert metadata.should_push is sent_v3["should_push"]
    assert hashlib.sha256(metadata.covered).hexdigest() == sent_v3["data_sha256"]


def test_what_the_old_sdk_published_reads_as_it_says(vectors: Vector, sent_v2: Vector) -> None:
    message = decode(bytes.fromhex(sent_v2["envelope"]))
    assert message.topic == vectors["v2"]["conversation"]["topic"]
    assert message.timestamp_ns == int(sent_v2["timestamp_ns"])
    assert message.message.hex() == sent_v2["message"]
    assert message.period == sent_v2["period"]
    assert message.kind == "v2-conversation"
    metadata = message.push_metadata
    assert metadata is not None
    assert metadata.sender_hmac.hex() == sent_v2["sender_hmac"]
    assert metadata.covered.hex() == sent_v2["header_bytes"]
    assert metadata.should_push is sent_v2["should_push"]


def test_the_reference_servers_own_fixture_reads_as_it_says(vectors: Vector) -> None:
    (fixture,) = vectors["v3"]["reference_fixtures"]
    message = decode(bytes.fromhex(fixture["envelope"]))
    assert (message.topic, message.kind) == (fixture["topic"], fixture["kind"])
    assert (message.timestamp_ns, message.period) == (int(fixture["timestamp_ns"]), fixture["period"])
    metadata = message.push_metadata
    assert metadata is not None
    assert metadata.sender_hmac.hex() == fixture["sender_hmac"]
    assert metadata.should_push is fixture["should_push"]
    assert hashlib.sha256(metadata.covered).hexdigest() == fixture["hmac_input_sha256"]


@given(raw=st.binary(max_size=300))
def test_bytes_are_an_envelope_or_malformed(raw: bytes) -> None:
    try:
        message = decode(raw)
    except MalformedEnvelope:
        return
    assert message.topic
    assert NodeEnvelope.FromString(raw).message == message.message


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff", "not a protobuf message of this shape"),
        (NodeEnvelope(content_topic="topic", message=b"sealed").SerializeToString()[:-1], "not a protobuf message"),
        (b"\x0a\x02\xc3\x28", "not a protobuf message"),  # the topic isn't UTF-8
        (b"", "topic missing"),
        (NodeEnvelope(timestamp_ns=1, message=b"sealed").SerializeToString(), "topic missing"),
    ],
)
def test_a_broken_envelope_says_why(raw: bytes, reason: str) -> None:
    with pytest.raises(MalformedEnvelope, match=f"^{reason}"):
        decode(raw)


@given(topic=topics, message=st.binary(max_size=80), times=st.tuples(*[st.integers(0, 2**64 - 1)] * 2))
def test_an_id_holds_nothing_that_a_node_assigns(topic: str, message: bytes, times: tuple[int, int]) -> None:
    first, second = (
        NodeEnvelope(content_topic=topic, timestamp_ns=time, message=message).SerializeToString() for time in times
    )
    assert decode(first).id == decode(second + UNKNOWN_FIELDS).id


def test_an_id_is_of_topic_and_message_apart() -> None:
    ids = {TopicMessage(topic, 0, message).id for topic, message in [("ab", b"c"), ("a", b"bc"), ("abc", b"")]}
    assert len(ids) == 3
    sized = b"\0\0\0\0\0\0\0\x02ab" + b"\0\0\0\0\0\0\0\x01c"
    assert TopicMessage("ab", 0, b"c").id == hashlib.sha256(sized).digest()


def test_an_envelope_lives_for_a_day_and_is_counted_for_its_topic() -> None:
    message = TopicMessage("topic", 1_700_000_000_999_999_999, b"")
    assert message.expires_at == 1_700_000_000 + 86_400
    assert message.sender == b"topic"


def test_a_v2_message_without_a_flag_says_nothing() -> None:
    raw = ConversationMessage(v2=ConversationMessage.V2(header_bytes=b"header")).SerializeToString()
    metadata = TopicMessage(conversation_topic("0102"), 0, raw).push_metadata
    assert metadata is not None
    assert (metadata.should_push, metadata.sender_hmac) == (None, b"")


def test_neither_messages_nor_hmacs_show_in_a_repr(sent_v3: Vector) -> None:
    message = decode(bytes.fromhex(sent_v3["envelope"]))
    assert "message=" not in repr(message)
    assert "hmac" not in repr(message.push_metadata)
