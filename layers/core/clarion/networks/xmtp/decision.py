"""Whether a subscriber wants an envelope: not its own, and not what its sender says needs no push.

In this order, as XIP-35 and the reference server have it:

    1. The HMAC holds under a key of the subscriber's      → own_message
    2. The sender says whether to push: no                 → not_pushable
                                        yes                → should_push
    3. Nothing is said, or the message can't be read       → no_flag, pushed

Without an HMAC of 32 bytes or a key there is no first test, nor for an app that has own messages delivered. The
reference tries the key of the envelope's period alone, and so pushes own messages at a rollover:
https://github.com/xmtp/example-notification-server-go/blob/main/pkg/xmtp/listener.go
"""

from collections.abc import Buffer, Mapping
from enum import StrEnum
from typing import NamedTuple

from clarion.networks.xmtp.envelope import PushMetadata, TopicMessage, decode
from clarion.networks.xmtp.sender_hmac import verify


class Reason(StrEnum):
    OWN_MESSAGE = "own_message"
    NOT_PUSHABLE = "not_pushable"
    SHOULD_PUSH = "should_push"
    NO_FLAG = "no_flag"


class MessageDecision(NamedTuple):
    deliver: bool
    reason: Reason


_DECIDED = {reason: MessageDecision(reason in {Reason.SHOULD_PUSH, Reason.NO_FLAG}, reason) for reason in Reason}


def decide(envelope: bytes, hmac_keys: Mapping[int, Buffer | None]) -> MessageDecision:
    """`hmac_keys` are one subscriber's for the envelope's topic, by period. Raises `MalformedEnvelope`."""
    return decide_message(decode(envelope), hmac_keys)


def decide_message(message: TopicMessage, hmac_keys: Mapping[int, Buffer | None]) -> MessageDecision:
    """As `decide`, for one of many subscribers of an envelope that is decoded once."""
    return _DECIDED[_reason(message, hmac_keys)]


def bytes_hashed(message: TopicMessage) -> int:
    """By `decide_message` for one subscriber, at most: each period's key is tried on all that the HMAC covers."""
    metadata = message.push_metadata
    if metadata is None or not metadata.may_be_own:
        return 0
    return len(_periods(message.period)) * len(metadata.covered)


def _reason(message: TopicMessage, hmac_keys: Mapping[int, Buffer | None]) -> Reason:
    metadata = message.push_metadata
    if metadata is None:
        return Reason.NO_FLAG
    if _is_own(metadata, hmac_keys, message.period):
        return Reason.OWN_MESSAGE
    if metadata.should_push is None:
        return Reason.NO_FLAG
    return Reason.SHOULD_PUSH if metadata.should_push else Reason.NOT_PUSHABLE


def _is_own(metadata: PushMetadata, hmac_keys: Mapping[int, Buffer | None], period: int) -> bool:
    """Tries the neighbouring periods as well: a sender goes by its own clock, and the node by another.

    A key of another scheme's size is passed over. HMAC pads its key with zeros, so one could stand for the other.
    A test costs a hash of the whole message for each subscriber, so none is made for what can be no HMAC.
    """
    if not metadata.may_be_own:
        return False
    for near in _periods(period):
        key = bytes(hmac_keys.get(near) or b"")
        if len(key) == metadata.key_size and verify(key, metadata.covered, metadata.sender_hmac):
            return True
    return False


def _periods(period: int) -> tuple[int, int, int]:
    """In the order in which their keys are tried."""
    return period, period - 1, period + 1
