"""What is on its way: an envelope, to the queue first and to the lake then, or a command to its network's function."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import batched
from uuid import UUID, uuid4

from clarion.messages import CommandMessage, EnvelopeMessage, ObservedMessage, RepetitionMessage, SecondLookMessage
from clarion.networks import Command, network
from clarion.storage import OVERSIZE_PREFIX
from ingest.filter.fingerprints import Fingerprint, of_envelope

MOST_BYTES = 1_024_000
"""A line in the lake may take no more, and a message of SQS a little more.

https://docs.aws.amazon.com/firehose/latest/dev/limits.html
"""

OVERHEAD_BYTES = 384
"""More than a message, or a line, has around its envelope and the subscriptions it names."""

MOST_NAMED = 100
"""Subscriptions in one message: as many as match reads in one request."""
NAME_BYTES = 40
"""One of them, in the message's JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """An envelope to be sent; `observed_at` is in UNIX milliseconds.

    `replayed_since`, `look_id` and `repeat_id` are as in the messages, `names` are the subscriptions that the message
    names. `keys` are what rules may name it by; `names` comes from the changes that were known of, as many as
    `changes_known`. `source` is the number of the source that showed it first. `verified`: whether its signature is
    known to be valid.
    """

    network: str
    receipt: UUID
    observed_at: int
    fingerprint: Fingerprint
    raw: bytes
    replayed_since: int | None = None
    names: tuple[str, ...] = ()
    look_id: UUID | None = None
    repeat_id: UUID | None = None
    keys: Sequence[Fingerprint] = field(default=(), compare=False)
    changes_known: int = 0
    source: int = 0
    verified: bool = False

    @property
    def id(self) -> UUID:
        """No two have the same; the looks at one envelope and its repetitions share its receipt."""
        return self.look_id or self.repeat_id or self.receipt

    @property
    def oversize(self) -> bool:
        return _base64_size(self.raw) + OVERHEAD_BYTES > MOST_BYTES

    @property
    def location(self) -> str:
        """Where it lies in S3 if it is oversize."""
        return f"{OVERSIZE_PREFIX}{self.receipt}"

    @property
    def message(self) -> ObservedMessage:
        """What the queue gets."""
        location, raw = (self.location, None) if self.oversize else (None, self.raw)
        shared = {
            "network": self.network,
            "receipt": self.receipt,
            "observed_at": self.observed_at,
            "raw": raw,
            "location": location,
            "replayed_since": self.replayed_since,
        }
        if self.look_id:
            return SecondLookMessage.model_validate({**shared, "look_id": self.look_id, "subscription_ids": self.names})
        if self.repeat_id:
            return RepetitionMessage.model_validate({**shared, "repeat_id": self.repeat_id, "changed": self.names})
        return EnvelopeMessage.model_validate({**shared, "changed": self.names})

    @property
    def wire_size(self) -> int:
        """Bytes that it takes up of a batch, at most; one that is oversize travels by its location alone."""
        overhead = OVERHEAD_BYTES + NAME_BYTES * len(self.names)
        return overhead if self.oversize else _base64_size(self.raw) + overhead

    @property
    def held_size(self) -> int:
        """Bytes that it takes up here, roughly."""
        return len(self.raw) + OVERHEAD_BYTES + NAME_BYTES * len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingCommand:
    """A command to be sent, as `source` gave it. `taken` is called when its queue has it."""

    command: Command
    observed_at: int
    source: int
    taken: Callable[[], None] = field(default=lambda: None, repr=False, compare=False)
    receipt: UUID = field(default_factory=uuid4)

    @property
    def id(self) -> UUID:
        return self.receipt

    @property
    def fingerprint(self) -> Fingerprint:
        """Of its content."""
        command = self.command
        return of_envelope(blake2b(command.content).digest(), bytes([network(command.network).number]))

    @property
    def message(self) -> CommandMessage:
        return CommandMessage(network=self.command.network, content=self.command.content)

    @property
    def wire_size(self) -> int:
        return _base64_size(self.command.content) + OVERHEAD_BYTES

    @property
    def held_size(self) -> int:
        return len(self.command.content) + OVERHEAD_BYTES


def second_looks(outgoing: Outgoing, names: Sequence[str]) -> Iterator[Outgoing]:
    """What has match look at the envelope again, for the subscriptions `names`."""
    for some in batched(names, MOST_NAMED, strict=False):
        yield replace(outgoing, names=some, look_id=uuid4())


def _base64_size(content: bytes) -> int:
    return -(-len(content) // 3) * 4
