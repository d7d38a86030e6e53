"""An inbox of XMTP that plays its part in tests: it seals messages for a group, and hands over its keys."""

from clarion.networks import Rule
from clarion.networks.xmtp import sender_hmac_key_v3
from clarion.networks.xmtp.rules import TopicCondition, key_of, pack
from clarion.networks.xmtp.sender_hmac import period_at, sender_hmac
from clarion.networks.xmtp.topics import group_topic, welcome_topic
from clarion.networks.xmtp.wire_pb2 import GroupMessage, NodeEnvelope

GROUP_ID = bytes(range(16))
TOPIC = group_topic(GROUP_ID)
WELCOMES = welcome_topic(bytes(32))
NS = 1_000_000_000


class Inbox:
    """`root` is what all installations of an inbox have in common."""

    def __init__(self, root: bytes, group_id: bytes = GROUP_ID) -> None:
        self._root = root.ljust(42, b"\0")
        self._group_id = group_id

    def key(self, period: int) -> bytes:
        return sender_hmac_key_v3(self._root, self._group_id, period)

    def keys(self, period: int) -> dict[int, bytes]:
        """What an app hands over in `period`."""
        return {near: self.key(near) for near in (period - 1, period, period + 1)}

    def rule(self, at_seconds: int, *, silent: bool = False) -> Rule:
        """For the group's topic, as subscribed to at that time."""
        condition = TopicCondition(self.keys(period_at(at_seconds)), silent)
        return Rule(key_of(group_topic(self._group_id)), pack(condition))

    def message(
        self, at_seconds: float, data: bytes = b"sealed", *, should_push: bool = True, period: int | None = None
    ) -> bytes:
        """A raw envelope, taken by a node at that time; `period` is the sender's, if its clock is another."""
        own = period_at(int(at_seconds)) if period is None else period
        made = sender_hmac(self.key(own), data)
        sent = GroupMessage.V1(group_id=self._group_id, data=data, sender_hmac=made, should_push=should_push)
        return envelope(group_topic(self._group_id), GroupMessage(v1=sent).SerializeToString(), at_seconds)


def envelope(topic: str, message: bytes, at_seconds: float) -> bytes:
    return NodeEnvelope(content_topic=topic, timestamp_ns=int(at_seconds) * NS, message=message).SerializeToString()
