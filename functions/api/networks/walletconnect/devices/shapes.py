"""The bodies of requests and answers about wallets' devices. A rule is a topic, and the types of notification wanted."""

from typing import Annotated, Self
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema, field_validator

from api.bodies import Key, RequestBody, SparseAnswer, at_most
from api.registration_shapes import RegistrationBody
from api.settings import MOST_RULES
from api.shapes import CHANNEL_NAMES, SubscriptionState
from clarion.channels import Channel
from clarion.networks.walletconnect.payload import CHANNELS
from clarion.networks.walletconnect.rules import MAX_TYPES, key_of, pack, topic_of, unpack
from clarion.rulesets import RuleSet
from clarion.tables import Subscription

CURSOR = r"^([A-Za-z0-9_-]{22}|[A-Za-z0-9_-]{75})$"
"""16 bytes, or 56, in base64url without padding: see `api.listing.Cursor`."""


def _served(channel: Channel) -> Channel:
    if channel not in CHANNELS:
        raise ValueError(f"must be one of {', '.join(CHANNELS)}")
    return channel


WalletChannel = Annotated[
    Channel,
    AfterValidator(_served),
    WithJsonSchema({"type": "string", "enum": [str(one) for one in CHANNELS], "title": "WalletChannel"}),
]
"""The channels that notifications of WalletConnect go by."""


class NewDevice(RegistrationBody):
    notify_type: WalletChannel = Field(validation_alias=CHANNEL_NAMES)


class NewTopicRule(RequestBody):
    topic: Key
    types: Annotated[list[UUID], at_most(MAX_TYPES)] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_TYPES,
        description="the types of notification to be pushed; all where absent",
    )


class TopicsRemoval(RequestBody):
    subscription_id: UUID
    topics: Annotated[list[Key], at_most(MOST_RULES)]


class TopicRulesChange(RequestBody):
    subscription_id: UUID
    rules: Annotated[list[NewTopicRule], at_most(MOST_RULES)]

    @field_validator("rules")
    @classmethod
    def _each_topic_once(cls, rules: list[NewTopicRule]) -> list[NewTopicRule]:
        if len({rule.topic for rule in rules}) < len(rules):
            raise ValueError("has a topic twice")
        return rules

    def as_set(self) -> RuleSet:
        return {key_of(rule.topic): pack(rule.types or ()) for rule in self.rules}


class TopicRule(SparseAnswer):
    topic: Key
    types: list[UUID] | None = None

    @classmethod
    def of(cls, key: bytes, condition: bytes) -> Self:
        return cls(topic=topic_of(key), types=unpack(condition) or None)


class DeviceShape(SubscriptionState):
    rules: list[TopicRule]

    @classmethod
    def with_rules(cls, row: Subscription, rules: RuleSet, now: int) -> Self:
        shapes = [TopicRule.of(key, condition) for key, condition in rules.items()]
        return cls(**SubscriptionState.values_of(row, now), rules=shapes)
