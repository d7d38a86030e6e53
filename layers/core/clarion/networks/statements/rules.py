"""Rules of the statement store: a key is a sender and a topic, a condition says whether the phone shall ring."""

from collections.abc import Sequence

from clarion.decisions import Wanted
from clarion.networks import Rule

NUMBER = b"\x01"
SENDER_BYTES = 32
ALERT, CALL = b"alert", b"voip"
"""What a rule may ask for; without, it takes what the subscription's channel gives."""


def key_of(sender: bytes, topic: bytes) -> bytes:
    """65 bytes: the network's number, the sender's public key, the topic."""
    return NUMBER + sender + topic


def keys_of(sender: bytes, topics: Sequence[bytes]) -> list[bytes]:
    """The key of each topic, once, in their order."""
    begin = NUMBER + sender
    return [begin + topic for topic in dict.fromkeys(topics)]


def split_key(key: bytes) -> tuple[bytes, bytes]:
    """Undo `key_of`: the sender and the topic."""
    return key[1 : 1 + SENDER_BYTES], key[1 + SENDER_BYTES :]


def wanted(rule: Rule) -> Wanted:
    return Wanted.CALL if rule.condition == CALL else Wanted.ALERT


def describe(rule: Rule) -> dict[str, str]:
    sender, topic = split_key(rule.key)
    described = {"sender": sender.hex(), "topic": topic.hex()}
    return described | ({"notify_type": rule.condition.decode()} if rule.condition else {})
