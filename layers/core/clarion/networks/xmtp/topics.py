"""Topics: where an envelope was published, and what kind of message that makes it.

    /xmtp/mls/1/g-{group id in hex}/proto           V3: a group, or one of the groups that make up a DM
    /xmtp/mls/1/w-{installation id in hex}/proto    V3: the welcomes of one installation
    /xmtp/0/m-{id}/proto                            V2: a conversation

V2 is retired (XIP-53); its conversations are still read, since the product document describes its scheme. No push comes
from any other topic.
"""

from enum import StrEnum

MAX_TOPIC_SIZE = 512
"""Bytes; several times what clients use. A rule's key must fit into a table's."""

_V3, _V2 = "/xmtp/mls/1/", "/xmtp/0/"


class MessageKind(StrEnum):
    """What a topic that pushes come from holds, in the words of the reference server's payloads; or `UNKNOWN`."""

    V3_CONVERSATION = "v3-conversation"
    V3_WELCOME = "v3-welcome"
    V2_CONVERSATION = "v2-conversation"
    UNKNOWN = "unknown"


_KINDS = {
    f"{_V3}g": MessageKind.V3_CONVERSATION,
    f"{_V3}w": MessageKind.V3_WELCOME,
    f"{_V2}m": MessageKind.V2_CONVERSATION,
}


def kind_of(topic: str) -> MessageKind:
    prefix, hyphen, _ = topic.partition("-")
    return _KINDS.get(prefix, MessageKind.UNKNOWN) if hyphen else MessageKind.UNKNOWN


def group_topic(group_id: bytes) -> str:
    return f"{_V3}g-{group_id.hex()}/proto"


def welcome_topic(installation_id: bytes) -> str:
    return f"{_V3}w-{installation_id.hex()}/proto"


def conversation_topic(conversation_id: str) -> str:
    """The topic of a V2 conversation; its id is text."""
    return f"{_V2}m-{conversation_id}/proto"
