"""XMTP: envelopes by topic, kept from their own sender by an HMAC (XIP-35), and the sender's word on what to push.

Envelopes are signed by nobody whom Clarion knows, so the node that shows one is all that vouches for it. Everything
here is pure; the protobuf runtime is imported with the first envelope, not with the package.
"""

from clarion.networks.xmtp.decision import MessageDecision, Reason, decide
from clarion.networks.xmtp.envelope import MalformedEnvelope, TopicMessage, decode
from clarion.networks.xmtp.sender_hmac import sender_hmac_key_v2, sender_hmac_key_v3

__all__ = [
    "MalformedEnvelope",
    "MessageDecision",
    "Reason",
    "TopicMessage",
    "decide",
    "decode",
    "sender_hmac_key_v2",
    "sender_hmac_key_v3",
]
