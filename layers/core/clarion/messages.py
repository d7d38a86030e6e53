"""The messages on the queues, each a versioned pydantic model: JSON outside, bytes inside.

A consumer understands every version that may still be in a queue, so a new field gets a default and a changed
meaning gets a new version.
"""

from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializeAsAny,
    TypeAdapter,
    ValidationInfo,
    model_validator,
)

from clarion import own_pushes
from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.networks import NETWORKS, Envelope, network

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


def _body_of_network(value: object, info: ValidationInfo) -> BaseModel | None:
    """The model is that of the message's purpose or else of its network, both of which are validated first."""
    if "network" not in info.data or "purpose" not in info.data:
        raise ValueError("neither purpose nor network says how to read it")
    purpose, of_network = info.data["purpose"], network(info.data["network"])
    if purpose in of_network.own_purposes:
        return None
    own = own_pushes.BODIES.get(purpose)
    if value is None and own is None and of_network.needs.body_table:
        return None
    return (own or of_network.body).model_validate(value)


class Message(BaseModel):
    """A message that a later version may extend: unknown fields are passed over."""

    # A component reads and sends a few of them: the others' schemas are never built.
    model_config = ConfigDict(
        defer_build=True, frozen=True, extra="ignore", ser_json_bytes="base64", val_json_bytes="base64"
    )

    def to_json(self) -> str:
        return self.model_dump_json(exclude_none=True)


class ObservedMessage(Message):
    """What all messages about an observed envelope share, on the queue of match: see `MatchMessage`.

    `raw` holds the envelope as its network showed it (base64 in the JSON). One that is too large for the queue lies in S3
    under the key `location` instead; exactly one of the two is set. `replayed_since` is set if a replay brought the
    envelope: when that node was last live before it, and so the earliest that it can have appeared; 0 if that is unknown.
    """

    version: Literal[1] = 1
    network: NetworkName
    receipt: UUID
    observed_at: Milliseconds
    raw: bytes | None = None
    location: str | None = None
    replayed_since: Milliseconds | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.raw is None) == (self.location is None):
            raise ValueError("an envelope is either in the message or at a location")
        return self

    @property
    def observation(self) -> dict[str, Any]:
        """What another message about the same envelope says as well."""
        return {name: getattr(self, name) for name in ObservedMessage.model_fields}


class EnvelopeMessage(ObservedMessage):
    """An envelope, on its way from ingest to match.

    `changed` are subscriptions whose rules for this envelope were written lately, so that an index may not show them
    yet: match reads theirs from the table.
    """

    kind: Literal["envelope"] = "envelope"
    changed: tuple[str, ...] = ()


class SecondLookMessage(ObservedMessage):
    """From ingest: match an envelope that was sent before, for these subscriptions alone. Their rules have changed since."""

    kind: Literal["second_look"] = "second_look"
    look_id: UUID
    subscription_ids: tuple[str, ...]


class RepetitionMessage(ObservedMessage):
    """From ingest: an envelope that was sent before as replayed, with the same receipt, has proven younger.

    This concerns calls alone, which its earlier `replayed_since` made too old. `changed` is as in `EnvelopeMessage`.
    """

    kind: Literal["repetition"] = "repetition"
    repeat_id: UUID
    changed: tuple[str, ...] = ()


class Span(Message):
    """The subscriptions whose ids lie after `after` and up to `until`."""

    after: str
    until: str


class PageMessage(ObservedMessage):
    """From match to itself: the next page of an envelope's fan-out, whose subscriptions lie within `span`.

    The pages of one span are worked off one after the other. Of two messages for the same `page`, only the one whose
    `token` locks it goes on. `repeat_id` is that of the repetition that is fanned out, if it is one; `changed` is as in
    `EnvelopeMessage`.
    """

    kind: Literal["page"] = "page"
    span: Span
    page: int
    token: UUID
    changed: tuple[str, ...] = ()
    repeat_id: UUID | None = None


class RemainderMessage(ObservedMessage):
    """From match to itself: a push queue refused an envelope's pushes for these subscriptions, but took its others.

    Or from the pipeline: what a subscription was to have was lost, and is decided anew for it alone.
    `look_id` and `repeat_id` are those of the message whose pushes they are.
    """

    kind: Literal["remainder"] = "remainder"
    subscription_ids: tuple[str, ...]
    look_id: UUID | None = None
    repeat_id: UUID | None = None


PartMessage = PageMessage | SecondLookMessage | RemainderMessage
"""About some of those whom an envelope may be for; what was decided of the envelope itself stands."""

type MatchMessage = EnvelopeMessage | SecondLookMessage | RepetitionMessage | PageMessage | RemainderMessage
"""What the queue of envelopes holds; `kind` names the type."""


def read_match_message(body: str | bytes) -> MatchMessage:
    """Raises `pydantic.ValidationError` for anything else."""
    return _match_messages().validate_json(body)


@cache
def _match_messages() -> TypeAdapter[MatchMessage]:
    return TypeAdapter(Annotated[MatchMessage, Field(discriminator="kind")])


class Recipient(NamedTuple):
    """The subscription that a push is for, without its address. `number` is as in `PushMessage`."""

    subscription_id: UUID
    client_id: bytes
    channel: Channel
    number: int | None = None


class PushMessage(Message):
    """One push for one subscription, on its way to dispatch. It never carries the token.

    `body` is what the payload is made of, as the network's own model, or that of `own_pushes`. Without one the push refers
    to the subscription's row in the network's `body_table`: dispatch makes the body of it, anew at each attempt. Its
    `number` is then what `clarion.newest` has counted: if that many have been sent, nobody needs it any more.
    `expires_at` is the envelope's expiry in UNIX seconds. `replayed_since` is as in `ObservedMessage`.
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
    body: Annotated[
        SerializeAsAny[BaseModel] | None, PlainValidator(_body_of_network), Field(validate_default=True)
    ] = None
    number: int | None = None

    @classmethod
    def of(
        cls, observed: ObservedMessage, envelope: Envelope, key: bytes, wanted: Wanted, recipient: Recipient
    ) -> Self:
        """The notification of `observed`, decoded as `envelope`, for who wants it so under `key`.

        It refers to the network's row, where the recipient has a number there.
        """
        refers = recipient.number is not None
        return cls(
            network=envelope.network,
            receipt=observed.receipt,
            observed_at=observed.observed_at,
            replayed_since=observed.replayed_since,
            envelope_id=envelope.id,
            expires_at=envelope.expires_at,
            subscription_id=recipient.subscription_id,
            client_id=recipient.client_id,
            channel=recipient.channel,
            wanted=wanted,
            body=None if refers else network(envelope.network).push_body(envelope, key, recipient.channel),
            number=recipient.number,
        )


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


class DeadTokenMessage(Message):
    """A request to end what other subscriptions a dead token has. `clarion.endings.end_holders` handles it.

    `token_hash` is the token's key in `tokens`; `app` and `environment` are where it is dead. The others are as in
    `clarion.endings.Death`.
    """

    version: Literal[1] = 1
    token_hash: bytes
    app: str | None = None
    environment: str
    reason: str
    at: Milliseconds
    since: Milliseconds


type CleanupRequest = CleanupMessage | DeadTokenMessage
"""What the queue `cleanup` holds: no field of one is required of the other."""


def read_cleanup_request(body: str | bytes) -> CleanupRequest:
    """Raises `pydantic.ValidationError` for anything else."""
    return _cleanup_requests().validate_json(body)


@cache
def _cleanup_requests() -> TypeAdapter[CleanupRequest]:
    return TypeAdapter(CleanupRequest)
