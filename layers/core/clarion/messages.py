"""The messages on the queues, each a versioned pydantic model: JSON outside, bytes inside.

A consumer understands every version that may still be in a queue, so a new field gets a default and a changed
meaning gets a new version.
"""

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from clarion.channels import Channel
from clarion.decisions import PushType

Milliseconds = Annotated[int, Field(ge=0)]
"""UNIX time in milliseconds."""


def _bytes_of_hex(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return bytes.fromhex(value)
    msg = "expected hex digits"
    raise ValueError(msg)


HexBytes = Annotated[bytes, PlainValidator(_bytes_of_hex), PlainSerializer(bytes.hex, return_type=str)]
"""Bytes, written as lower-case hex without `0x`."""


class Message(BaseModel):
    """A message that a later version may extend: unknown fields are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_bytes="base64", val_json_bytes="base64")

    def to_json(self) -> str:
        return self.model_dump_json(exclude_none=True)


class Span(Message):
    """A part of a statement's fan-out: the subscriptions whose ids lie after `after` and up to `until`.

    Its pages are worked off one after the other; `token` tells the message that may do `page` from one that was sent
    once too often.
    """

    after: str
    until: str
    page: int
    token: UUID


class StatementMessage(Message):
    """A statement as the store showed it, on its way from ingest to match.

    `statement` holds the SCALE encoding (base64 in the JSON). One that is too large for the queue lies in S3 under
    the key `location` instead; exactly one of the two is set. Match sends itself a statement again with a `span`, if
    more want it than one invocation can take.

    `changed` are subscriptions whose rules for this statement were written lately, so that an index may not show them
    yet. A message with a `look_id` is a second look, at `changed` alone, and the id names it. One with `unsent` is for
    those subscriptions alone: a queue took the statement's other pushes, but not theirs.
    `replayed_since` is set if a replay brought the statement: when that node was last live before it, and so the
    earliest that it can have appeared; 0 if that is unknown. If it proves younger, a second message with the same receipt
    and a `repeat_id` says so, which concerns calls alone.
    """

    version: Literal[1] = 1
    receipt: UUID
    observed_at: Milliseconds
    statement: bytes | None = None
    location: str | None = None
    replayed_since: Milliseconds | None = None
    changed: tuple[str, ...] = ()
    look_id: UUID | None = None
    repeat_id: UUID | None = None
    unsent: tuple[str, ...] = ()
    span: Span | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.statement is None) == (self.location is None):
            raise ValueError("a statement is either in the message or at a location")
        return self


class PushMessage(Message):
    """One notification for one subscription, on its way from match to dispatch. It never carries the token.

    `data` is what the payload may carry: absent if the statement has none, or if it fits no channel, which
    `truncated` tells apart. `expires_at` is the statement's expiry in UNIX seconds. `replayed_since` is as in the
    statement's message.
    """

    version: Literal[1] = 1
    receipt: UUID
    observed_at: Milliseconds
    statement_hash: HexBytes
    subscription_id: UUID
    client_id: HexBytes
    notify_type: Channel
    push_type: PushType = PushType.ALERT
    sender_pubkey: HexBytes
    topic: HexBytes
    data: HexBytes | None = None
    truncated: bool = False
    replayed_since: Milliseconds | None = None
    expires_at: int


class CleanupMessage(Message):
    """A request to erase rules that are out of force, sent before they are. `clarion.erasing.erase_dead` handles it.

    `through` is the last generation whose request has ended by the time the message is delivered; 0 names none.
    """

    version: Literal[1] = 1
    subscription_ids: tuple[UUID, ...]
    through: int = 0
