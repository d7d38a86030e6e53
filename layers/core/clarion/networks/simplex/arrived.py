"""A message's arrival, as an SMP server reports it to a notifier. Only the queue's receiver can read the metadata."""

from dataclasses import dataclass, field

MESSAGE_NONCE_BYTES = 24


@dataclass(frozen=True, slots=True)
class MessageArrived:
    nonce: bytes = field(repr=False)
    metadata: bytes = field(repr=False)
