"""From a message and its subscription to the push that the provider gets, if it is still of use."""

from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar

from clarion import own_pushes, sealing
from clarion.channels import CALL_SECONDS, CHANNELS, is_call
from clarion.decisions import Purpose, PushDecision, SubscriptionStatus, Wanted
from clarion.messages import PushMessage
from clarion.networks import FcmMessage, Payload, Receiver, network
from clarion.providers.apps import App
from clarion.providers.order import Order
from clarion.providers.sender import Push
from clarion.tables import Subscription


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """The push comes too late to be of use, or nothing is left to send."""

    decision: ClassVar = PushDecision.STALE
    reason: str
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGone:
    """Since the push was queued, the subscription was deleted, its token declared dead, or its code replaced."""

    decision: ClassVar = PushDecision.SUBSCRIPTION_GONE
    reason: str
    status: None = None


def useful_until(message: PushMessage) -> float:
    """UNIX seconds."""
    if is_call(message.channel, message.wanted):
        return min(_appeared_at(message) / 1000 + CALL_SECONDS, message.expires_at)
    return message.expires_at


def obstacle(message: PushMessage, subscription: Subscription | None, now: float) -> Stale | SubscriptionGone | None:
    if now >= useful_until(message):
        return Stale(reason="call" if is_call(message.channel, message.wanted) else "expired")
    if subscription is None:
        return SubscriptionGone(reason="deleted")
    if subscription.status != _addressed(message.purpose):
        return SubscriptionGone(reason=subscription.status)
    if subscription.channel != message.channel:
        return SubscriptionGone(reason="moved to another channel")
    if message.purpose is Purpose.VERIFICATION and subscription.proof_receipt != str(message.receipt):
        return SubscriptionGone(reason="another code")
    return None


def build(message: PushMessage, row: Subscription, app: App, *, now: float) -> Push:
    """The same message makes the same push every time, whoever builds it and however often, but for what is sealed in it.

    Raises `LookupError` for a channel that the message's network does not serve.
    """
    # Not by the model's attributes, of which each takes several times as long to read.
    values = row.attribute_values
    device_key = values.get("device_key") if CHANNELS[message.channel].takes_device_key else None
    payload = _payload(message, app.title, device_key, int(values["began_at"]))
    order = Order(
        token=values["token"],
        body=payload.body,
        push_id=push_id(message),
        collapse_id=_collapse_id(message, sealed=device_key is not None),
        useful_until=useful_until(message),
        now=now,
        call=is_call(message.channel, message.wanted),
        background=message.wanted is Wanted.BACKGROUND,
        transient=payload.transient or message.purpose is Purpose.WAKE_UP,
        priority=payload.priority,
    )
    return app.push(order)


def _addressed(purpose: Purpose) -> SubscriptionStatus:
    """The status of the subscriptions that pushes of this purpose go to."""
    return SubscriptionStatus.PENDING if purpose is Purpose.VERIFICATION else SubscriptionStatus.ACTIVE


def _payload(
    message: PushMessage, title: str, device_key: bytes | None, began_at: int
) -> Payload[bytes] | Payload[FcmMessage]:
    if device_key is None:
        return _composed(message, Receiver(title, CHANNELS[message.channel].payload_bytes, began_at))
    composed = _composed(message, Receiver(title, sealing.payload_bytes(message.channel, title), began_at))
    return sealing.seal(composed, device_key, message.subscription_id)


def _composed(message: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
    if message.purpose in own_pushes.BODIES:
        return own_pushes.compose(message.channel, message)
    of_network = network(message.network)
    if message.channel not in of_network.channels:
        raise LookupError(message.channel)
    return of_network.payload(message.channel, message, receiver)


def push_id(message: PushMessage) -> str:
    """Names the push of one envelope for one subscription, also when it is repeated: a UUID, version 8."""
    name = sha256(message.subscription_id.bytes + message.envelope_id).hexdigest()
    return f"{name[:8]}-{name[8:12]}-8{name[12:15]}-8{name[15:18]}-{name[18:30]}"


def _collapse_id(message: PushMessage, *, sealed: bool) -> str:
    """By an envelope's id, whoever follows its network knows what it is, so it doesn't go beside what is encrypted."""
    encrypted = sealed or CHANNELS[message.channel].encrypted
    return push_id(message) if encrypted else message.envelope_id.hex()


def _appeared_at(message: PushMessage) -> int:
    """UNIX milliseconds: when the envelope appeared, at the earliest."""
    return message.observed_at if message.replayed_since is None else message.replayed_since
