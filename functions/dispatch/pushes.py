"""From a message and its subscription to the push that the provider gets, if it is still of use."""

from collections.abc import Collection
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
from clarion.secrets import SharedSecret
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalesced:
    """Another push brings what this one is about."""

    decision: ClassVar = PushDecision.COALESCED
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
    if subscription.status not in _addressed(message):
        return SubscriptionGone(reason=subscription.status)
    if subscription.channel != message.channel:
        return SubscriptionGone(reason="moved to another channel")
    is_proof = message.purpose is Purpose.VERIFICATION and not is_networks_own(message)
    if is_proof and subscription.proof_receipt != str(message.receipt):
        return SubscriptionGone(reason="another code")
    return None


def is_networks_own(message: PushMessage) -> bool:
    """Whether the network composes it although Clarion has pushes of its own for its purpose."""
    return message.purpose in network(message.network).own_purposes


def build(message: PushMessage, row: Subscription, app: App, *, now: float, secret: SharedSecret | None = None) -> Push:
    """The same message makes the same push every time, whoever builds it and however often, but for what is sealed in it.

    `secret` is the network's, if its payloads need one. Raises `LookupError` for a channel that the network does not serve.
    """
    # Not by the model's attributes, of which each takes several times as long to read.
    values = row.attribute_values
    device_key = values.get("device_key") if CHANNELS[message.channel].takes_device_key else None
    receiver = Receiver(app.title, 0, int(values["began_at"]), values.get("network_data"), secret)
    payload = _payload(message, receiver, device_key)
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


def _addressed(message: PushMessage) -> Collection[SubscriptionStatus]:
    """The states of subscriptions that it may go to. A network that proves tokens itself may repeat its code to any."""
    if message.purpose is not Purpose.VERIFICATION:
        return (SubscriptionStatus.ACTIVE,)
    own = is_networks_own(message)
    return (SubscriptionStatus.PENDING, SubscriptionStatus.ACTIVE) if own else (SubscriptionStatus.PENDING,)


def _payload(
    message: PushMessage, receiver: Receiver, device_key: bytes | None
) -> Payload[bytes] | Payload[FcmMessage]:
    if device_key is None:
        return _composed(message, receiver._replace(payload_bytes=CHANNELS[message.channel].payload_bytes))
    sealed_bytes = sealing.payload_bytes(message.channel, receiver.title)
    composed = _composed(message, receiver._replace(payload_bytes=sealed_bytes))
    return sealing.seal(composed, device_key, message.subscription_id)


def _composed(message: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
    if message.purpose in own_pushes.BODIES and not is_networks_own(message):
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
    by_network = network(message.network).needs.payload_secret is not None
    encrypted = sealed or by_network or CHANNELS[message.channel].encrypted
    return push_id(message) if encrypted else message.envelope_id.hex()


def _appeared_at(message: PushMessage) -> int:
    """UNIX milliseconds: when the envelope appeared, at the earliest."""
    return message.observed_at if message.replayed_since is None else message.replayed_since
