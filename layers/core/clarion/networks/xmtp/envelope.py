"""One item as an XMTP node shows it: a topic, the node's time, and a message that only its group can decrypt.

A node vouches for the outer envelope, so a broken one is the node's fault and raises. The message inside was made by
a client, and what can't be read there is merely unknown: it is pushed, as the reference server does.
"""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from clarion.networks import Malformed
from clarion.networks.xmtp.sender_hmac import HMAC_SIZE, KEY_SIZE_V2, KEY_SIZE_V3, period_at
from clarion.networks.xmtp.topics import MessageKind, kind_of

LIFETIME_S = 24 * 3600
_NS_PER_S = 1_000_000_000
_LENGTH_SIZE = 8


class MalformedEnvelope(Malformed):
    """The bytes are no envelope that a node may show. `reason` never quotes them."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PushMetadata:
    """What a client attached to its message for servers that push."""

    covered: bytes = field(repr=False)
    """What the HMAC is made over."""
    sender_hmac: bytes = field(repr=False)
    """Empty if there is none."""
    key_size: int
    """Bytes of a key of this scheme."""
    should_push: bool | None
    """None if the client didn't say."""

    @property
    def may_be_own(self) -> bool:
        """Whether there is what some key may verify."""
        return len(self.sender_hmac) == HMAC_SIZE


@dataclass(frozen=True)
class TopicMessage:
    """An envelope's fields as the node sent them; `message` is what subscribers get."""

    topic: str
    timestamp_ns: int
    message: bytes = field(repr=False)

    @property
    def kind(self) -> MessageKind:
        return kind_of(self.topic)

    @property
    def id(self) -> bytes:
        """SHA-256 over topic and message, each after its length: the same from every node, whose times may differ."""
        topic = self.topic.encode()
        return hashlib.sha256(_sized(topic) + _sized(self.message)).digest()

    @property
    def sender(self) -> bytes:
        """Whom a limit is counted for. Nobody but the group knows who sent the message, so the topic."""
        return self.topic.encode()

    @property
    def period(self) -> int:
        """The thirty-day period in which the node took the message."""
        return period_at(self.timestamp_ns // _NS_PER_S)

    @property
    def expires_at(self) -> int:
        """UNIX seconds."""
        return self.timestamp_ns // _NS_PER_S + LIFETIME_S

    @cached_property
    def idempotency_key(self) -> str:
        """What the reference server's webhook knows a message by."""
        return hashlib.sha1(self.topic.encode() + self.message, usedforsecurity=False).hexdigest()

    @cached_property
    def push_metadata(self) -> PushMetadata | None:
        """Read once for all subscribers; None if the topic's kind carries none, or the message can't be read."""
        read = _METADATA_READERS.get(self.kind)
        return read(self.message) if read else None


def decode(raw: bytes) -> TopicMessage:
    """Raises `MalformedEnvelope`, and nothing else, for whatever is no envelope; unknown fields are ignored."""
    from clarion.networks.xmtp import wire  # noqa: PLC0415 - imports the protobuf runtime

    envelope = wire.read_envelope(raw)
    if envelope is None:
        raise MalformedEnvelope("not a protobuf message of this shape")
    if not envelope.content_topic:
        raise MalformedEnvelope("topic missing")
    return TopicMessage(envelope.content_topic, envelope.timestamp_ns, envelope.message)


def _group_metadata(raw: bytes) -> PushMetadata | None:
    from clarion.networks.xmtp import wire  # noqa: PLC0415 - imports the protobuf runtime

    message = wire.read_group_message(raw)
    if message is None:
        return None
    return PushMetadata(message.data, message.sender_hmac, KEY_SIZE_V3, message.should_push)


def _conversation_metadata(raw: bytes) -> PushMetadata | None:
    from clarion.networks.xmtp import wire  # noqa: PLC0415 - imports the protobuf runtime

    message = wire.read_conversation_message(raw)
    if message is None:
        return None
    should_push = message.should_push if message.HasField("should_push") else None
    return PushMetadata(message.header_bytes, message.sender_hmac, KEY_SIZE_V2, should_push)


_METADATA_READERS = {
    MessageKind.V3_CONVERSATION: _group_metadata,
    MessageKind.V2_CONVERSATION: _conversation_metadata,
}


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(_LENGTH_SIZE, "big") + part
