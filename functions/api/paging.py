"""Where the next page of a listing begins."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple, Self
from uuid import UUID

UUID_BYTES, REVISION_BYTES = 16, 8
CURSOR = r"^([A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{118})$"
"""16 bytes, or 88, in base64url without padding."""


class Cursor(NamedTuple):
    """A subscription, and within it the rule after which to go on, as long as the rules are those of `revision`."""

    subscription_id: str
    revision: int | None = None
    after: bytes | None = None

    def __str__(self) -> str:
        raw = UUID(self.subscription_id).bytes
        if self.revision is not None and self.after is not None:
            raw += self.revision.to_bytes(REVISION_BYTES) + self.after
        return urlsafe_b64encode(raw).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Undo `str`, for what fits `CURSOR`."""
        raw = urlsafe_b64decode(text + "==")
        subscription_id = str(UUID(bytes=raw[:UUID_BYTES]))
        if len(raw) == UUID_BYTES:
            return cls(subscription_id)
        revision, after = raw[UUID_BYTES : UUID_BYTES + REVISION_BYTES], raw[UUID_BYTES + REVISION_BYTES :]
        return cls(subscription_id, int.from_bytes(revision), after)
