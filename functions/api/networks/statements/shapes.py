"""The bodies of requests and answers about subscriptions and their rules.

A rule is a sender and a topic. Its `notify_type`, if there is one, is the rule's condition, in the same letters.
"""

from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from api.bodies import Key, RequestBody, SparseAnswer, at_most
from api.registration_shapes import RegistrationBody
from api.settings import MOST_RULES
from api.shapes import CHANNEL_NAMES, SubscriptionState
from clarion.channels import Channel
from clarion.networks.statements.payload import CHANNELS
from clarion.networks.statements.rules import ALERT, CALL, key_of, split_key
from clarion.rulesets import RuleSet
from clarion.tables import Subscription

CURSOR = r"^([A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{118})$"
"""16 bytes, or 88, in base64url without padding: see `api.listing.Cursor`."""


def _served(channel: Channel) -> Channel:
    if channel not in CHANNELS:
        raise ValueError(f"must be one of {', '.join(CHANNELS)}")
    return channel


StatementChannel = Annotated[
    Channel,
    AfterValidator(_served),
    WithJsonSchema({"type": "string", "enum": [str(one) for one in CHANNELS], "title": "Channel"}),
]
"""The channels that statements go by."""


class NotifyType(StrEnum):
    """How a push is presented. Only rules of `fcm` subscriptions choose: `apns` and `webpush` get alerts, `voip` gets calls."""

    ALERT = ALERT.decode()
    VOIP = CALL.decode()

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core)
        return schema | {"title": "PushType"}


def _rule_schema(schema: dict[str, Any]) -> None:
    """Each name may be in snake case or in camel case."""
    fields, title = schema["properties"], schema["title"]
    sender, topic, how = (fields[name] for name in ("sender_pubkey", "topic", "notify_type"))
    shapes = [
        {
            "type": "object",
            "properties": {sender_name: sender, "topic": topic, how_name: how},
            "required": [sender_name, "topic"],
            "additionalProperties": False,
        }
        for sender_name in ("sender_pubkey", "senderPubkey")
        for how_name in ("notify_type", "notifyType")
    ]
    schema.clear()
    schema.update(title=title, anyOf=shapes)


class NewSubscription(RegistrationBody):
    notify_type: StatementChannel = Field(validation_alias=CHANNEL_NAMES)


class NewRule(RequestBody):
    model_config = ConfigDict(json_schema_extra=_rule_schema)

    sender_pubkey: Key
    topic: Key
    notify_type: NotifyType | None = Field(
        default=None,
        description="how an Android phone is to present the push; apns, voip and webpush subscriptions ignore it",
    )

    @property
    def key(self) -> bytes:
        return key_of(self.sender_pubkey, self.topic)


class RulesRemoval(RequestBody):
    subscription_id: UUID
    rules: Annotated[list[NewRule], at_most(MOST_RULES)]

    def as_set(self) -> RuleSet:
        return {rule.key: (rule.notify_type or "").encode() for rule in self.rules}


class RulesChange(RulesRemoval):
    @field_validator("rules")
    @classmethod
    def _not_both_ways(cls, rules: list[NewRule]) -> list[NewRule]:
        """A pair may stand there twice, as some apps send it, but only with the same meaning."""
        meant = {rule.key: rule.notify_type for rule in rules}
        for number, rule in enumerate(rules):
            if meant[rule.key] != rule.notify_type:
                raise ValueError(f"has a pair twice with different notify_type, at [{number}]")
        return rules


class RuleShape(SparseAnswer):
    sender_pubkey: Key
    topic: Key
    notify_type: NotifyType | None = None

    @classmethod
    def of(cls, key: bytes, condition: bytes) -> Self:
        sender, topic = split_key(key)
        return cls(sender_pubkey=sender, topic=topic, notify_type=NotifyType(condition.decode()) if condition else None)


class SubscriptionShape(SubscriptionState):
    rules: list[RuleShape]

    @classmethod
    def with_rules(cls, row: Subscription, rules: RuleSet, now: int) -> Self:
        shapes = [RuleShape.of(key, condition) for key, condition in rules.items()]
        return cls(**SubscriptionState.values_of(row, now), rules=shapes)
