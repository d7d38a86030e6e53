"""Notifications on their way to the wallets' phones: sealed for the relay already, so that no one else can read them."""

from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from clarion import compact_json
from clarion.networks import Malformed


class MalformedNotification(Malformed):
    """Not as `SealedNotification.raw` makes it."""


class _Raw(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    topic: str = Field(pattern="^[0-9a-f]{64}$")
    message: str = Field(pattern="^[A-Za-z0-9+/]+={0,2}$")
    type: UUID
    id: str = Field(min_length=1)
    expires_at: int = Field(ge=0)


@dataclass(frozen=True)
class SealedNotification:
    """`message` is the envelope in base64 that goes to `topic` (in hex). `id` is the notification's for its subscriber."""

    topic: str
    message: str = field(repr=False)
    type: UUID
    id: str
    expires_at: int

    @property
    def envelope_id(self) -> bytes:
        return envelope_id_of(self.topic, self.id)

    @property
    def raw(self) -> bytes:
        """What `read` reads."""
        return compact_json.encode({**vars(self), "type": str(self.type)})


def envelope_id_of(topic: str, notification_id: str) -> bytes:
    return sha256(bytes.fromhex(topic) + notification_id.encode()).digest()


def read(raw: bytes) -> SealedNotification:
    """Raises `MalformedNotification`, and nothing else."""
    try:
        found = _Raw.model_validate_json(raw)
    except ValueError:
        raise MalformedNotification("not a sealed notification") from None
    return SealedNotification(**dict(found))
