"""What each push carries: the message as its group sealed it if it fits its channel, otherwise only the topic.

The fields are those of the reference server, so that apps made for it read them; but a silent push is a real background
push, and one that is `truncated` comes without `encryptedMessage`: the app syncs the topic instead.
https://github.com/xmtp/example-notification-server-go/tree/main/pkg/delivery

A refresh asks the app to subscribe again, with the keys of the next period. It names no topic.
"""

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator

from clarion import channels, compact_json
from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import FcmMessage, Payload, Receiver, background_fcm
from clarion.networks.xmtp.envelope import TopicMessage

CHANNELS = (Channel.APNS, Channel.FCM, Channel.WEBHOOK)
APNS_LIMIT = channels.CHANNELS[Channel.APNS].payload_bytes
ADDED_BY_FCM = 200
"""Bytes, at most: `gcm.message_id`, `google.c.…`."""
TITLE = "New message from XMTP"
REFRESH_KEYS = "refresh-keys"
"""The kind of a refresh."""


def _bytes_of_base64(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return b64decode(value, validate=True)
    raise ValueError("expected base64")


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


class TopicBody(BaseModel):
    """`message` is None if it doesn't fit the channel; `should_push` is None if the sender didn't say, or can't have said.

    What goes to the webhook has the `idempotency_key` of the whole message, which may stay behind.
    """

    model_config = ConfigDict(frozen=True)

    topic: str
    timestamp_ns: int
    message: Annotated[bytes, PlainValidator(_bytes_of_base64), PlainSerializer(_base64, return_type=str)] | None = None
    kind: str
    should_push: bool | None = None
    idempotency_key: str | None = None


def body_of(message: TopicMessage, channel: Channel) -> TopicBody:
    """A message that is too large for the channel in base64 alone need not travel to it."""
    fits = len(message.message) <= channels.CHANNELS[channel].payload_bytes * 3 // 4
    metadata = message.push_metadata
    return TopicBody(
        topic=message.topic,
        timestamp_ns=message.timestamp_ns,
        message=message.message if fits else None,
        kind=message.kind,
        should_push=metadata.should_push if metadata else None,
        idempotency_key=message.idempotency_key if channel is Channel.WEBHOOK else None,
    )


def refresh_body() -> TopicBody:
    return TopicBody(topic="", timestamp_ns=0, kind=REFRESH_KEYS)


def compose(channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
    """What `channel` sends for a push of this network. Raises `LookupError` for a channel that it does not serve."""
    match channel:
        case Channel.APNS:
            return apns(push, receiver)
        case Channel.FCM:
            return fcm(push, receiver)
        case Channel.WEBHOOK:
            return webhook(push, receiver)
    raise LookupError(channel)


def apns(push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    """An alert that the app's notification service extension rewrites, or, silently, what wakes the app alone."""
    aps = {"content-available": 1} if _silent(push) else {"alert": TITLE, "mutable-content": 1}
    if push.purpose is Purpose.REFRESH:
        return Payload(compact_json.encode({"aps": aps, "messageKind": REFRESH_KEYS}), truncated=False)
    body = _body(push)
    found = {"aps": aps, "topic": body.topic, "messageKind": body.kind}
    if body.message is not None:
        whole = compact_json.encode({**found, "encryptedMessage": _base64(body.message)})
        if len(whole) <= receiver.payload_bytes:
            return Payload(whole, truncated=False)
    return Payload(compact_json.encode({**found, "truncated": True}), truncated=True)


def fcm(push: PushMessage, receiver: Receiver) -> Payload[FcmMessage]:
    """For whatever holds the token: an Android phone, an iPhone or a browser. All of them get the same data."""
    if push.purpose is Purpose.REFRESH:
        return Payload(_fcm_message({"messageType": REFRESH_KEYS}, push), truncated=False)
    body = _body(push)
    found = {"topic": body.topic, "messageType": body.kind}
    if body.message is not None:
        full = {**found, "encryptedMessage": _base64(body.message)}
        if len(compact_json.encode(full)) <= receiver.payload_bytes and _size_by_apns(full) <= APNS_LIMIT:
            return Payload(_fcm_message(full, push), truncated=False)
    return Payload(_fcm_message({**found, "truncated": "true"}, push), truncated=True)


def webhook(push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    """What the operator's own server gets, but for the installation, which the provider adds."""
    if push.purpose is Purpose.REFRESH:
        context: dict[str, object] = {
            "idempotency_key": push.envelope_id.hex(),
            "message_context": {"message_type": REFRESH_KEYS},
        }
        return Payload(compact_json.encode(context), truncated=False)
    message = _body(push).message
    if message is not None:
        whole = compact_json.encode(_request(push, receiver, {"message": _base64(message)}))
        if len(whole) <= receiver.payload_bytes:
            return Payload(whole, truncated=False)
    return Payload(compact_json.encode(_request(push, receiver, {"truncated": True})), truncated=True)


def _request(push: PushMessage, receiver: Receiver, content: dict[str, object]) -> dict[str, object]:
    body = _body(push)
    flag = {} if body.should_push is None else {"should_push": body.should_push}
    return {
        "idempotency_key": body.idempotency_key,
        "message": {"content_topic": body.topic, "timestamp_ns": body.timestamp_ns, **content},
        "message_context": {"message_type": body.kind, **flag},
        "subscription": {
            "created_at": _rfc3339(receiver.began_at),
            "topic": body.topic,
            "is_silent": _silent(push),
        },
    }


def _rfc3339(at: int) -> str:
    """`at` is in UNIX milliseconds."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fcm_message(data: dict[str, str], push: PushMessage) -> FcmMessage:
    """An iPhone that is reached by way of FCM shows what its app makes of the data: there is no alert."""
    if _silent(push):
        return background_fcm(data)
    return {
        "data": data,
        "android": {"priority": "high"},
        "apns": {"payload": {"aps": {"mutable-content": 1}}},
        "webpush": {"notification": {"title": TITLE}},
    }


def _size_by_apns(data: dict[str, str]) -> int:
    """Of what FCM sends to APNs for an iPhone: the data beside `aps`, and keys of its own."""
    return len(compact_json.encode({"aps": {"mutable-content": 1}, **data})) + ADDED_BY_FCM


def _silent(push: PushMessage) -> bool:
    return push.wanted is Wanted.BACKGROUND


def _body(push: PushMessage) -> TopicBody:
    if not isinstance(push.body, TopicBody):
        raise TypeError("no push of XMTP")
    return push.body
