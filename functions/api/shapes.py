"""The bodies of requests and answers. The apps in the field spell some fields differently: every spelling is accepted."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from clarion.channels import Channel
from clarion.decisions import Environment, Wanted, SubscriptionStatus
from clarion.rulesets import RuleSet
from clarion.tables import KEY_BYTES

APNS_TOKEN = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2}){32,100})")
"""Apple tells senders not to rely on a length; 32 bytes is what it has always been, 100 what PushKit may reach."""
DIRECT_DEVICE = r"^[a-zA-Z0-9_\-+/=:]{64,326}$"
DIRECT_IPHONE = re.compile(r"[0-9a-fA-F]{64,200}")
APP = "^[A-Za-z0-9._-]{1,64}$"
FCM_TOKEN = re.compile(r"[0-9a-zA-Z_:.+/=-]{16,1024}")
MOST_RULES, MOST_SUBSCRIPTIONS = 10_000, 50
"""In one request."""


type Platform = Literal["ios", "android"]


def _hex(size: int) -> Callable[[object], bytes]:
    form = re.compile(rf"(?:0[xX])?([0-9a-fA-F]{{{2 * size}}})")

    def parse(value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        found = form.fullmatch(value) if isinstance(value, str) else None
        if not found:
            raise ValueError(f"must be {size} bytes as {2 * size} hex digits, with or without 0x")
        return bytes.fromhex(found[1])

    return parse


def _hex_schema(size: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^(0[xX])?[0-9a-fA-F]{{{2 * size}}}$"})


Key = Annotated[bytes, BeforeValidator(_hex(32)), PlainSerializer(bytes.hex, return_type=str), _hex_schema(32)]


def _at_most(limit: int) -> BeforeValidator:
    """Looks at a list before its items: each that breaks a rule takes memory, and a body has room for a million."""

    def short(value: object) -> object:
        if isinstance(value, list) and len(value) > limit:
            raise ValueError(f"must be at most {limit}")
        return value

    return BeforeValidator(short)


Signature = Annotated[bytes, BeforeValidator(_hex(64)), _hex_schema(64)]


def _meaning(value: object) -> object:
    """What neither the case of hex nor its prefix changes. No field with two spellings holds more than a text.

    So whatever else is there equals nothing: to compare two lists within lists may go deeper than Python can.
    """
    if isinstance(value, str):
        return value.lower().removeprefix("0x")
    return None if value is None else object()


class Body(BaseModel):
    """Fields that a later version may know are passed over; two spellings of one field must not differ."""

    model_config = ConfigDict(frozen=True)
    spellings: ClassVar[Sequence[Sequence[str]]] = ()

    @model_validator(mode="before")
    @classmethod
    def _agree(cls, given: Any) -> Any:
        for names in cls.spellings if isinstance(given, Mapping) else ():
            values = [_meaning(given[name]) for name in names if name in given]
            if any(value != values[0] for value in values):
                raise ValueError(f"{' and '.join(names)} mean the same but differ")
        return given


class ChallengeRequest(Body):
    client_id: Key


class Challenge(BaseModel):
    """`message` is what to sign; a careful client builds it itself. `expires_at` is in UNIX seconds."""

    challenge: str
    message: str
    expires_at: int


class SignedChallenge(Body):
    client_id: Key
    challenge: str = Field(max_length=200)
    signature: Signature


class Token(BaseModel):
    """`expires_in` is in seconds."""

    token: str = Field(repr=False)
    token_type: Literal["Bearer"]
    expires_in: int


def _registration_schema(schema: dict[str, Any]) -> None:
    """What a token looks like depends on its kind, and the kind's field has two spellings."""
    fields, title = schema["properties"], schema["title"]
    optional = {name: fields[name] for name in ("app", "environment")}
    kinds = (([Channel.APNS.value, Channel.VOIP.value], APNS_TOKEN), ([Channel.FCM.value], FCM_TOKEN))
    shapes = [
        {
            "type": "object",
            "properties": {
                name: {"type": "string", "enum": kind},
                "token": fields["token"] | {"pattern": f"^{token.pattern}$"},
                **optional,
            },
            "required": [name, "token"],
        }
        for name in ("notificationType", "platform")
        for kind, token in kinds
    ]
    schema.clear()
    schema.update(title=title, anyOf=shapes)


def _rule_schema(schema: dict[str, Any]) -> None:
    """The names are in snake case or in camel case; a mixture is accepted too."""
    fields, title = schema["properties"], schema["title"]
    sender, topic, how = (fields[name] for name in ("sender_pubkey", "topic", "notify_type"))
    shapes = [
        {
            "type": "object",
            "properties": {sender_name: sender, "topic": topic, how_name: how},
            "required": [sender_name, "topic"],
        }
        for sender_name, how_name in (("sender_pubkey", "notify_type"), ("senderPubkey", "notifyType"))
    ]
    schema.clear()
    schema.update(title=title, anyOf=shapes)


class NewSubscription(Body):
    model_config = ConfigDict(json_schema_extra=_registration_schema)
    spellings = (("notificationType", "platform"),)

    notify_type: Channel = Field(validation_alias=AliasChoices("notificationType", "platform"))
    token: str = Field(repr=False, description="hex for apns and voip, as Firebase gave it for fcm")
    app: str | None = Field(default=None, pattern=APP, description="the deployment's first app where absent")
    environment: Environment | None = Field(
        default=None, description="where Apple made the token: sandbox for builds of developers"
    )

    @field_validator("token")
    @classmethod
    def _of_its_kind(cls, token: str, info: ValidationInfo) -> str:
        """Hex becomes lower case without `0x`; a token of Firebase stays as it is."""
        notify_type = info.data.get("notify_type")
        pattern = FCM_TOKEN if notify_type is Channel.FCM else APNS_TOKEN
        found = pattern.fullmatch(token)
        if notify_type and not found:
            raise ValueError(f"must be a token of {notify_type}")
        return found[1].lower() if found and pattern is APNS_TOKEN else token


class NewRule(Body):
    model_config = ConfigDict(json_schema_extra=_rule_schema)
    spellings = (("sender_pubkey", "senderPubkey"), ("notify_type", "notifyType"))

    sender_pubkey: Key = Field(validation_alias=AliasChoices("sender_pubkey", "senderPubkey"))
    topic: Key
    notify_type: Wanted | None = Field(
        default=None,
        validation_alias=AliasChoices("notify_type", "notifyType"),
        description="how an Android phone is to present the push; iOS subscriptions pass it over",
    )


class RulesRemoval(Body):
    subscription_id: UUID
    rules: Annotated[list[NewRule], _at_most(MOST_RULES)]

    def as_set(self) -> RuleSet:
        return {rule.sender_pubkey + rule.topic: rule.notify_type for rule in self.rules}


class RulesChange(RulesRemoval):
    @field_validator("rules")
    @classmethod
    def _not_both_ways(cls, rules: list[NewRule]) -> list[NewRule]:
        """A pair may stand there twice, as some apps send it, but only with the same meaning."""
        meant = {rule.sender_pubkey + rule.topic: rule.notify_type for rule in rules}
        for number, rule in enumerate(rules):
            if meant[rule.sender_pubkey + rule.topic] != rule.notify_type:
                raise ValueError(f"has a pair twice with different notify_type, at [{number}]")
        return rules


class Removal(Body):
    subscription_ids: Annotated[list[UUID], _at_most(MOST_SUBSCRIPTIONS)] = Field(
        min_length=1, max_length=MOST_SUBSCRIPTIONS
    )


class Registered(BaseModel):
    subscription_id: UUID


class Added(BaseModel):
    added: int
    total_rules: int


class Removed(BaseModel):
    removed: int
    total_rules: int


class RuleShape(BaseModel):
    sender_pubkey: Key
    topic: Key
    notify_type: Wanted | None = None

    @classmethod
    def of(cls, pair: bytes, push_type: Wanted | None) -> Self:
        return cls(sender_pubkey=pair[:KEY_BYTES], topic=pair[KEY_BYTES:], notify_type=push_type)


class SubscriptionShape(BaseModel):
    """`statusReason` is the provider's word for why it declared the token dead."""

    subscription_id: UUID
    notify_type: Channel = Field(serialization_alias="notificationType")
    token: str = Field(repr=False)
    app: str | None = None
    environment: Environment | None = None
    status: SubscriptionStatus
    status_reason: str | None = Field(default=None, serialization_alias="statusReason")
    rules: list[RuleShape]


class Notification(Body):
    """A direct push, in the words of the API that the apps know."""

    device_token: str = Field(validation_alias="deviceToken", pattern=DIRECT_DEVICE, repr=False)
    push_id: str = Field(validation_alias="pushId", pattern="^([0-9a-fA-F]{32}|[0-9a-fA-F]{64})$")
    platform: Platform | None = Field(default=None, description="told from the token where absent")
    bundle_id: str | None = Field(
        default=None,
        validation_alias="bundlerId",
        pattern="^[A-Za-z0-9.-]{1,256}$",
        description="instead of this deployment's app, for an iPhone",
    )
    message: str = Field(pattern="^(0[xX])?[0-9a-fA-F]*$", max_length=8192, description="encrypted by the sender")
    voip: StrictBool | None = Field(default=None, description="a call; a message where absent")

    @model_validator(mode="after")
    def _token_of_its_platform(self) -> Self:
        if self.platform == "ios" and not DIRECT_IPHONE.fullmatch(self.device_token):
            raise ValueError("deviceToken of an iPhone is hex")
        return self


class DirectError(BaseModel):
    """`status` and `response` are the provider's."""

    device: str
    environment: Literal["development", "production"] | None = None
    status: int | str | None = None
    response: Any = None


class NotificationResult(BaseModel):
    success: bool
    platform: Platform
    sent: int | None = None
    failed: int | None = None
    message_id: str | None = Field(default=None, serialization_alias="messageId")
    errors: list[DirectError] | None = None
