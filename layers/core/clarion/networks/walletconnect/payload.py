"""What each push carries: the notification as it was sealed for the relay, or, where that doesn't fit, its hash.

The fields are those of WalletConnect's push server, so that wallets made for it read them. The wallet opens the message
with the topic's key; one that comes without, but with a `hash`, it fetches from the relay.
https://github.com/WalletConnect/push-server/blob/main/src/providers/apns.rs
"""

from collections.abc import Mapping
from hashlib import sha256

from pydantic import BaseModel, ConfigDict, Field

from clarion import channels, compact_json
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks import FcmMessage, Payload, Receiver
from clarion.networks.walletconnect.sealed import SealedNotification
from clarion.networks.walletconnect.tags import TAGS, ActName

CHANNELS = (Channel.APNS, Channel.FCM, Channel.WEBPUSH)
_TAG = TAGS[ActName.MESSAGE]


class NotificationBody(BaseModel):
    """`message` is None if it doesn't fit the channel; `hash` is its SHA-256 in hex."""

    model_config = ConfigDict(frozen=True)

    topic: str
    message: str | None = Field(default=None, repr=False)
    hash: str


def body_of(notification: SealedNotification, channel: Channel) -> NotificationBody:
    message = notification.message
    fits = len(message) <= channels.CHANNELS[channel].payload_bytes
    return NotificationBody(
        topic=notification.topic,
        message=message if fits else None,
        hash=sha256(message.encode()).hexdigest(),
    )


def compose(channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
    """What `channel` sends for a push of this network. Raises `LookupError` for a channel that it does not serve."""
    match channel:
        case Channel.APNS:
            aps = {"alert": {"title": receiver.title}, "mutable-content": 1, "content-available": 1}
            return _json({"aps": aps, "tag": _TAG}, push, receiver)
        case Channel.FCM:
            return _fcm(push, receiver)
        case Channel.WEBPUSH:
            return _json({"title": receiver.title, "tag": _TAG}, push, receiver)
    raise LookupError(channel)


def _json(head: Mapping[str, object], push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    body = _body(push)
    whole = compact_json.encode({**head, **_whole(body)})
    if body.message is not None and len(whole) <= receiver.payload_bytes:
        return Payload(whole, truncated=False)
    return Payload(compact_json.encode({**head, **_reference(body)}), truncated=True)


def _fcm(push: PushMessage, receiver: Receiver) -> Payload[FcmMessage]:
    """A data message, which the app presents by itself."""
    body, head = _body(push), {"tag": str(_TAG)}
    whole = {**head, **_whole(body)}
    if body.message is not None and len(compact_json.encode(whole)) <= receiver.payload_bytes:
        return Payload(_fcm_message(whole), truncated=False)
    return Payload(_fcm_message({**head, **_reference(body)}), truncated=True)


def _fcm_message(data: dict[str, str]) -> FcmMessage:
    return {"data": data, "android": {"priority": "high"}}


def _whole(body: NotificationBody) -> dict[str, str]:
    return {"topic": body.topic, "message": body.message or ""}


def _reference(body: NotificationBody) -> dict[str, str]:
    return {"topic": body.topic, "hash": body.hash}


def _body(push: PushMessage) -> NotificationBody:
    if not isinstance(push.body, NotificationBody):
        raise TypeError("no push of WalletConnect")
    return push.body
