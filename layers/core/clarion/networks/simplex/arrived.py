"""A message's arrival, as an SMP server reports it to a notifier. Only the queue's receiver can read the metadata."""

from dataclasses import dataclass, field

MESSAGE_NONCE_BYTES = 24
MOST_METADATA_BYTES = 144
"""An id and a time, padded to 128 bytes, and the tag of their encryption."""


@dataclass(frozen=True, slots=True)
class MessageArrived:
    nonce: bytes = field(repr=False)
    metadata: bytes = field(repr=False)
