"""Protobuf in and out of the shapes of `wire.proto`; what is no message of that shape is None.

Importing this imports the protobuf runtime, some 100 ms of CPU on a small machine: import it where an envelope is read.
"""

from google.protobuf.message import DecodeError

from clarion.networks.xmtp.wire_pb2 import ConversationMessage, GroupMessage, NodeEnvelope


def read_envelope(raw: bytes) -> NodeEnvelope | None:
    try:
        return NodeEnvelope.FromString(raw)
    except DecodeError:
        return None


def read_group_message(raw: bytes) -> GroupMessage.V1 | None:
    """None also for a version that is not known here."""
    try:
        message = GroupMessage.FromString(raw)
    except DecodeError:
        return None
    return message.v1 if message.HasField("v1") else None


def read_conversation_message(raw: bytes) -> ConversationMessage.V2 | None:
    """None also for the version before, which carries neither HMAC nor flag."""
    try:
        message = ConversationMessage.FromString(raw)
    except DecodeError:
        return None
    return message.v2 if message.HasField("v2") else None
