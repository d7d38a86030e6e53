"""The bodies of requests and answers about subscriptions, whatever their network."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from api.bodies import RequestBody, SparseAnswer, at_most
from clarion import base64url
from clarion.channels import Channel
from clarion.decisions import Environment, PushDecision, SubscriptionStatus
from clarion.proofs import status_at
from clarion.tables import TRANSACTION_SUBSCRIPTIONS, Subscription
from clarion.wake_ups import LEAST_MINUTES, MOST_MINUTES

APP = "^[A-Za-z0-9._-]{1,64}$"
CHANNEL_NAMES = AliasChoices("notificationType", "notification_type", "platform")
CODE = "^[A-Za-z0-9_-]{43}$"


def _device_key(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be a text")  # noqa: TRY004 - pydantic makes no error of a TypeError
    # Few clients have one, and its import takes as long as that of the elliptic curves.
    from clarion.sealing import parse_device_key  # noqa: PLC0415

    return parse_device_key(value)


def _no_text(value: object) -> object:
    """JSON's 30 and 30.0 are the same number; "30" is none."""
    if isinstance(value, str):
        raise ValueError("must be an integer")  # noqa: TRY004 - pydantic makes no error of a TypeError
    return value


DeviceKey = Annotated[
    bytes,
    BeforeValidator(_device_key),
    PlainSerializer(base64url.encode, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": CODE,
            "description": "an X25519 public key in base64url, which pushes are sealed for",
        }
    ),
]
AppName = Annotated[str, Field(pattern=APP)]
WakeEveryMinutes = Annotated[
    int, Field(ge=LEAST_MINUTES, le=MOST_MINUTES, description="only for apns and fcm"), BeforeValidator(_no_text)
]


class Registered(BaseModel):
    subscription_id: UUID
    status: SubscriptionStatus

    @classmethod
    def of(cls, row: Subscription) -> Self:
        return cls(subscription_id=UUID(row.subscription_id), status=SubscriptionStatus(row.status))


class Removal(RequestBody):
    subscription_ids: Annotated[list[UUID], at_most(TRANSACTION_SUBSCRIPTIONS)] = Field(
        min_length=1, max_length=TRANSACTION_SUBSCRIPTIONS
    )


class Added(BaseModel):
    added: int
    total_rules: int


class Removed(BaseModel):
    removed: int
    total_rules: int


class HandedBackCode(RequestBody):
    code: Annotated[str, Field(pattern=CODE, repr=False, description="as it was pushed to the token")]

    @property
    def secret(self) -> bytes:
        return base64url.decode(self.code)


class NewToken(RequestBody):
    token: str = Field(repr=False, description="as for the registration")
    notify_type: Channel | None = Field(
        default=None, validation_alias=CHANNEL_NAMES, description="the subscription's own, if it is given"
    )


class SubscriptionChange(RequestBody):
    """What is absent stays, and null removes: then the first app, or production, is meant."""

    app: AppName | None = None
    environment: Environment | None = None
    device_key: DeviceKey | None = None
    wake_every_minutes: WakeEveryMinutes | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """The attributes to change, by their names."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class ProofState(SparseAnswer):
    """`push` is what became of the code's push, as soon as it was tried; the code is good until `expires_at`."""

    push: PushDecision | None = None
    expires_at: datetime

    @classmethod
    def of(cls, row: Subscription) -> Self:
        push = PushDecision(row.proof_push) if row.proof_push else None
        return cls(push=push, expires_at=datetime.fromtimestamp(int(row.proof_until) // 1000, UTC))


class SubscriptionState(SparseAnswer):
    """`statusReason` says why it is invalid: the provider's word for a dead token, or `replaced`."""

    subscription_id: UUID
    notify_type: Channel = Field(serialization_alias="notificationType")
    token: str = Field(repr=False)
    app: str | None = None
    environment: Environment | None = None
    device_key: DeviceKey | None = None
    wake_every_minutes: int | None = None
    status: SubscriptionStatus
    status_reason: str | None = Field(default=None, serialization_alias="statusReason")
    proof: ProofState | None = None

    @classmethod
    def of(cls, row: Subscription, now: int) -> Self:
        """As it is at `now`, in UNIX milliseconds."""
        return cls(**cls.values_of(row, now))

    @staticmethod
    def values_of(row: Subscription, now: int) -> dict[str, Any]:
        status = status_at(row, now)
        return {
            "subscription_id": UUID(row.subscription_id),
            "notify_type": Channel(row.channel),
            "token": row.token,
            "app": row.app,
            "environment": row.environment,
            "device_key": row.device_key and base64url.encode(row.device_key),
            "wake_every_minutes": row.wake_every_minutes,
            "status": status,
            "status_reason": row.status_reason,
            "proof": ProofState.of(row) if status is SubscriptionStatus.PENDING else None,
        }
