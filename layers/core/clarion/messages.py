"""The messages on the queues, each a versioned pydantic model: JSON outside, bytes inside.

A consumer understands every version that may still be in a queue, so a new field gets a default and a changed
meaning gets a new version.
"""

from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    ValidationInfo,
    model_validator,
)

from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.networks import NETWORKS, network

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


def _registered(name: str) -> str:
    if name not in NETWORKS:
        raise ValueError("no network of this name")
    return name


NetworkName = Annotated[str, AfterValidator(_registered)]


def _body_of_network(value: object, info: ValidationInfo) -> BaseModel:
    """The model is that of the message's network, which is validated first."""
    if "network" not in info.data:
        raise ValueError("no network says how to read it")
    return network(info.data["network"]).body.model_validate(value)


class Message(BaseModel):
    """A message that a later version may extend: unknown fields are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_bytes="base64", val_json_bytes="base64")

    def to_json(self) -> str:
        return self.model_dump_json(exclude_none=True)


class Span(Message):
    """A part of an envelope's fan-out: the subscriptions whose ids lie after `after` and up to `until`.

    Its pages are worked off one after the other. Of two messages for the same `page`, only the one whose `token` claims
    it goes on.
    """

    after: str
    until: str
    page: int
    token: UUID


class EnvelopeMessage(Message):
    """An envelope as a network showed it, on its way from ingest to match.

    `raw` holds its bytes (base64 in the JSON). One that is too large for the queue lies in S3 under the key `location`
    instead; exactly one of the two is set. Match sends itself an envelope again with a `span`, if more want it than one
    invocation can take.

    `changed` are subscriptions whose rules for this envelope were written lately, so that an index may not show them
    yet. A message with a `look_id` is a second look, at `changed` alone, and the id names it. One with `unsent` is for
    those subscriptions alone: a queue took the envelope's other pushes, but not theirs.
    `replayed_since` is set if a replay brought the envelope: when that node was last live before it, and so the
    earliest that it can have appeared; 0 if that is unknown. If it proves younger, a second message with the same receipt
    and a `repeat_id` says so, which concerns calls alone.
    """

    version: Literal[1] = 1
    network: NetworkName
    receipt: UUID
    observed_at: Milliseconds
    raw: bytes | None = None
    location: str | None = None
    replayed_since: Milliseconds | None = None
    changed: tuple[str, ...] = ()
    look_id: UUID | None = None
    repeat_id: UUID | None = None
    unsent: tuple[str, ...] = ()
    span: Span | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.raw is None) == (self.location is None):
            raise ValueError("an envelope is either in the message or at a location")
        return self


class PushMessage(Message):
    """One push for one subscription, on its way to dispatch. It never carries the token.

    `body` is what the payload is made of, as the network's own model. `expires_at` is the envelope's expiry in UNIX
    seconds. `replayed_since` is as in the envelope's message.
    """

    version: Literal[1] = 1
    network: NetworkName
    purpose: Purpose = Purpose.NOTIFICATION
    receipt: UUID
    observed_at: Milliseconds
    envelope_id: HexBytes
    subscription_id: UUID
    client_id: HexBytes
    channel: Channel
    wanted: Wanted = Wanted.ALERT
    replayed_since: Milliseconds | None = None
    expires_at: int
    body: Annotated[SerializeAsAny[BaseModel], PlainValidator(_body_of_network)]


class CommandMessage(Message):
    """A `Command`, on its way to the network's own function."""

    version: Literal[1] = 1
    network: NetworkName
    content: bytes


class CleanupMessage(Message):
    """A request to erase rules that are out of force, sent before they are. `clarion.cleanup.erase_dead` handles it.

    `through` is the last generation whose request has ended by the time the message is delivered; 0 names none.
    """

    version: Literal[1] = 1
    subscription_ids: tuple[UUID, ...]
    through: int = 0
