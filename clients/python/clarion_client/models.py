"""What goes to the API and comes from it, as docs/openapi.json names and spells it. An answer is the JSON as it came.

Tokens are in some of them: don't log them whole. A later version may answer more members, and values that no literal has.
"""

from typing import Literal, NotRequired, TypedDict

type Channel = Literal["apns", "voip", "fcm", "webpush", "webhook"]
type Environment = Literal["production", "sandbox"]
type Platform = Literal["ios", "android"]
type PushType = Literal["alert", "voip"]
type SubscriptionStatus = Literal["pending", "active", "invalid", "expired"]
type NotificationDecision = Literal[
    "own_message", "not_pushable", "not_in_scope", "rate_limited", "duplicate", "capped", "queued"
]
type PushDecision = Literal[
    "delivered",
    "received",
    "token_gone",
    "subscription_gone",
    "coalesced",
    "stale",
    "retry",
    "refused",
    "misconfigured",
]


class SubscriptionChange(TypedDict, total=False):
    """What is absent stays as it is, or as the deployment has it; None removes."""

    app: str | None
    environment: Environment | None
    device_key: str | None
    wake_every_minutes: int | None


class RuleShape(TypedDict):
    """Sender and topic in hex."""

    sender_pubkey: str
    topic: str
    notify_type: NotRequired[PushType]


class Registered(TypedDict):
    """A `pending` one waits for the code that is pushed to its token."""

    subscription_id: str
    status: SubscriptionStatus


class ProofState(TypedDict):
    """`push` is what became of the code's push, once it was tried; `expires_at` is in ISO 8601."""

    push: NotRequired[PushDecision]
    expires_at: str


class SubscriptionState(TypedDict):
    """`proof` is there while it is pending, `statusReason` while it is invalid."""

    subscription_id: str
    notificationType: Channel
    token: str
    app: NotRequired[str]
    environment: NotRequired[Environment]
    device_key: NotRequired[str]
    wake_every_minutes: NotRequired[int]
    status: SubscriptionStatus
    statusReason: NotRequired[str]
    proof: NotRequired[ProofState]


class SubscriptionShape(SubscriptionState):
    rules: list[RuleShape]


class Added(TypedDict):
    added: int
    total_rules: int


class Removed(TypedDict):
    removed: int
    total_rules: int


class DeliveryShape(TypedDict):
    """`at` is in ISO 8601. `latency_ms` and `attempt` are None if it was decided before there was a push."""

    at: str
    network: str
    decision: NotificationDecision | PushDecision
    latency_ms: int | None
    attempt: int | None


class DeliveryList(TypedDict):
    """The last first, back to `since`."""

    since: str
    deliveries: list[DeliveryShape]


class DirectPushOptions(TypedDict, total=False):
    """`bundlerId` is an iPhone's app where it isn't the deployment's own; `voip` makes it a call."""

    platform: Platform
    bundlerId: str
    voip: bool


class DirectError(TypedDict):
    """What the provider says in refusing: `response` is its own answer."""

    device: str
    environment: NotRequired[Literal["development", "production"]]
    status: NotRequired[int | str]
    response: NotRequired[object]


class NotificationResult(TypedDict):
    success: bool
    platform: Platform
    sent: NotRequired[int]
    failed: NotRequired[int]
    messageId: NotRequired[str]
    errors: NotRequired[list[DirectError]]


class FieldError(TypedDict):
    field: str
    rule: str
