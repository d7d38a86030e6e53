"""A statement on its way, to the queue first and to the lake then."""

from dataclasses import dataclass
from uuid import UUID

from clarion.messages import StatementMessage
from ingest.fingerprints import Fingerprint

MOST_BYTES = 1_024_000
"""A line in the lake may take no more, and a message of SQS a little more.

https://docs.aws.amazon.com/firehose/latest/dev/limits.html
"""

ENVELOPE_BYTES = 256
"""More than a message, or a line, has around its statement."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Letter:
    """A statement to be sent; `observed_at` is in UNIX milliseconds."""

    receipt: UUID
    observed_at: int
    fingerprint: Fingerprint
    statement: bytes

    @property
    def oversize(self) -> bool:
        return _base64_size(self.statement) + ENVELOPE_BYTES > MOST_BYTES

    @property
    def location(self) -> str:
        """Where it lies in S3 if it is oversize."""
        return f"statements/{self.receipt}"

    @property
    def message(self) -> StatementMessage:
        location, statement = (self.location, None) if self.oversize else (None, self.statement)
        return StatementMessage(
            receipt=self.receipt, observed_at=self.observed_at, statement=statement, location=location
        )

    @property
    def wire_size(self) -> int:
        """Bytes that it takes up of a batch, at most; one that is oversize travels by its location alone."""
        return ENVELOPE_BYTES if self.oversize else _base64_size(self.statement) + ENVELOPE_BYTES

    @property
    def held_size(self) -> int:
        """Bytes that it takes up here, roughly."""
        return len(self.statement) + ENVELOPE_BYTES


def _base64_size(content: bytes) -> int:
    return -(-len(content) // 3) * 4
