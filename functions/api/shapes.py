"""The bodies of requests and answers. The apps in the field spell some fields differently: every spelling is accepted."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self
from uuid import UUID

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from clarion.decisions import NotifyType, PushType, SubscriptionStatus
from clarion.rulesets import RuleSet
from clarion.tables import KEY_BYTES

HEX_KEY = re.compile(r"(?:0[xX])?([0-9a-fA-F]{64})")
APNS_TOKEN = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2}){32,100})")
"""Apple tells senders not to rely on a length; 32 bytes is what it has always been, 100 what PushKit may reach."""
FCM_TOKEN = re.compile(r"[0-9a-zA-Z_:.+/=-]{16,1024}")


def _key(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    found = HEX_KEY.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError("must be 32 bytes as 64 hex digits, with or without 0x")
    return bytes.fromhex(found[1])


Key = Annotated[
    bytes,
    BeforeValidator(_key),
    PlainSerializer(bytes.hex, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{HEX_KEY.pattern}$"}, mode="validation"),
    WithJsonSchema({"type": "string", "pattern": "^[0-9a-f]{64}$"}, mode="serialization"),
]


class Body(BaseModel):
    """Fields that a later version may know are passed over; two spellings of one field must not differ."""

    model_config = ConfigDict(frozen=True)
    spellings: ClassVar[Sequence[Sequence[str]]] = ()

    @model_validator(mode="before")
    @classmethod
    def _agree(cls, given: Any) -> Any:
        for names in cls.spellings if isinstance(given, Mapping) else ():
            values = [given[name] for name in names if name in given]
            if any(value != values[0] for value in values):
                raise ValueError(f"{' and '.join(names)} mean the same but differ")
        return given


class NewSubscription(Body):
    spellings = (("notificationType", "platform"),)

    notify_type: NotifyType = Field(validation_alias=AliasChoices("notificationType", "platform"))
    token: str = Field(repr=False, description="hex for apns and voip, as Firebase gave it for fcm")

    @field_validator("token")
    @classmethod
    def _of_its_kind(cls, token: str, info: ValidationInfo) -> str:
        """Hex becomes lower case without `0x`; a token of Firebase stays as it is."""
        notify_type = info.data.get("notify_type")
        pattern = FCM_TOKEN if notify_type is NotifyType.FCM else APNS_TOKEN
        found = pattern.fullmatch(token)
        if notify_type and not found:
            raise ValueError(f"must be a token of {notify_type}")
        return found[1].lower() if found and pattern is APNS_TOKEN else token


class RuleShape(Body):
    spellings = (("sender_pubkey", "senderPubkey"), ("notify_type", "notifyType"))

    sender_pubkey: Key = Field(validation_alias=AliasChoices("sender_pubkey", "senderPubkey"))
    topic: Key
    notify_type: PushType | None = Field(
        default=None,
        validation_alias=AliasChoices("notify_type", "notifyType"),
        description="how an Android phone is to present the push; iOS subscriptions pass it over",
    )

    @classmethod
    def of(cls, pair: bytes, push_type: PushType | None) -> Self:
        return cls(sender_pubkey=pair[:KEY_BYTES], topic=pair[KEY_BYTES:], notify_type=push_type)


class RulesChange(Body):
    subscription_id: UUID
    rules: list[RuleShape]

    def as_set(self) -> RuleSet:
        return {rule.sender_pubkey + rule.topic: rule.notify_type for rule in self.rules}


class Removal(Body):
    subscription_ids: list[UUID] = Field(min_length=1, max_length=50)


class Registered(BaseModel):
    subscription_id: UUID


class Added(BaseModel):
    added: int
    total_rules: int


class Removed(BaseModel):
    removed: int
    total_rules: int


class SubscriptionShape(BaseModel):
    """`statusReason` is the provider's word for why it declared the token dead."""

    subscription_id: UUID
    notify_type: NotifyType = Field(serialization_alias="notificationType")
    token: str = Field(repr=False)
    status: SubscriptionStatus
    status_reason: str | None = Field(default=None, serialization_alias="statusReason")
    rules: list[RuleShape]
