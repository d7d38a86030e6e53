"""A statement on its way, to the queue first and to the lake then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import batched
from uuid import UUID, uuid4

from clarion.messages import EnvelopeMessage
from ingest.fingerprints import Fingerprint

MOST_BYTES = 1_024_000
"""A line in the lake may take no more, and a message of SQS a little more.

https://docs.aws.amazon.com/firehose/latest/dev/limits.html
"""

ENVELOPE_BYTES = 256
"""More than a message, or a line, has around its statement and the subscriptions it names."""

MOST_NAMED = 100
"""Subscriptions in one message: as many as match reads in one request."""
NAME_BYTES = 40
"""One of them, in the message's JSON."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Letter:
    """A statement to be sent; `observed_at` is in UNIX milliseconds.

    `replayed_since`, `changed`, `look_id` and `repeat_id` are as in the message. `pairs` are what rules may name it by;
    `changed` comes from the changes that were known of, as many as `changes_known`. `node` is the number of the node
    that showed it first. `verified`: whether its signature is known to be valid.
    """

    receipt: UUID
    observed_at: int
    fingerprint: Fingerprint
    statement: bytes
    replayed_since: int | None = None
    changed: tuple[str, ...] = ()
    look_id: UUID | None = None
    repeat_id: UUID | None = None
    pairs: Sequence[Fingerprint] = field(default=(), compare=False)
    changes_known: int = 0
    node: int = 0
    verified: bool = False

    @property
    def key(self) -> UUID:
        """Tells it from all others; the looks at one statement and its repetitions share its receipt."""
        return self.look_id or self.repeat_id or self.receipt

    @property
    def oversize(self) -> bool:
        return _base64_size(self.statement) + ENVELOPE_BYTES > MOST_BYTES

    @property
    def location(self) -> str:
        """Where it lies in S3 if it is oversize."""
        return f"statements/{self.receipt}"

    @property
    def message(self) -> EnvelopeMessage:
        location, statement = (self.location, None) if self.oversize else (None, self.statement)
        return EnvelopeMessage(
            receipt=self.receipt,
            observed_at=self.observed_at,
            statement=statement,
            location=location,
            replayed_since=self.replayed_since,
            changed=self.changed,
            look_id=self.look_id,
            repeat_id=self.repeat_id,
        )

    @property
    def wire_size(self) -> int:
        """Bytes that it takes up of a batch, at most; one that is oversize travels by its location alone."""
        envelope = ENVELOPE_BYTES + NAME_BYTES * len(self.changed)
        return envelope if self.oversize else _base64_size(self.statement) + envelope

    @property
    def held_size(self) -> int:
        """Bytes that it takes up here, roughly."""
        return len(self.statement) + ENVELOPE_BYTES + NAME_BYTES * len(self.changed)


def second_looks(letter: Letter, names: Sequence[str]) -> Iterator[Letter]:
    """What has match look at the statement again, for the subscriptions `names`."""
    for some in batched(names, MOST_NAMED, strict=False):
        yield replace(letter, changed=some, look_id=uuid4())


def _base64_size(content: bytes) -> int:
    return -(-len(content) // 3) * 4
