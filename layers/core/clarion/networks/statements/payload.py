"""What each push carries: the matched statement if it fits its channel, otherwise only the way to find it.

All bytes of a statement are lower-case hex without a prefix. A truncated payload has a null `data` (FCM: no such
key) and the statement's `hash`, by which the app finds it in the store. A statement that has no data gives an empty
string instead: no app should go and fetch what does not exist.
"""

import json
from functools import cache

from pydantic import BaseModel, ConfigDict

from clarion import channels
from clarion.channels import Channel
from clarion.decisions import Wanted
from clarion.messages import HexBytes, PushMessage
from clarion.networks import FcmMessage, Payload, Receiver
from clarion.networks.statements.codec import Statement

CHANNELS = (Channel.APNS, Channel.VOIP, Channel.FCM, Channel.WEBPUSH)
MAX_DATA_SIZE = max(channels.CHANNELS[channel].payload_bytes for channel in CHANNELS) // 2
"""Statement data of more bytes than this fits no channel, and need not travel to one."""


class StatementBody(BaseModel):
    """`data` is what the payload may carry: absent if the statement has none, or if it fits no channel: `truncated`."""

    model_config = ConfigDict(frozen=True)

    sender: HexBytes
    topic: HexBytes
    data: HexBytes | None = None
    truncated: bool = False


def body_of(statement: Statement, sender: bytes, topic: bytes) -> StatementBody:
    data = statement.data
    truncated = data is not None and len(data) > MAX_DATA_SIZE
    return StatementBody(sender=sender, topic=topic, data=None if truncated else data, truncated=truncated)


def compose(channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
    """What `channel` sends for a push of this network. Raises `LookupError` for a channel that it does not serve."""
    match channel:
        case Channel.APNS:
            return apns(push, receiver)
        case Channel.VOIP:
            return voip(push, receiver)
        case Channel.FCM:
            return fcm(push, receiver)
        case Channel.WEBPUSH:
            return webpush(push, receiver)
    raise LookupError(channel)


def apns(push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    """An alert that the app's notification service extension rewrites; a truncated one also wakes the app to fetch."""
    data = _data_hex(push)
    if data is not None:
        body = _apple_body(_alert(receiver.title), push, data)
        if len(body) <= receiver.payload_bytes:
            return Payload(body, truncated=False)
    return Payload(_apple_body(_alert(receiver.title, wake=True), push, None), truncated=True)


def voip(push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    """A call. `aps` is empty, since the app has CallKit show it."""
    data = _data_hex(push)
    if data is not None:
        body = _apple_body("{}", push, data)
        if len(body) <= receiver.payload_bytes:
            return Payload(body, truncated=False)
    return Payload(_apple_body("{}", push, None), truncated=True)


def fcm(push: PushMessage, receiver: Receiver) -> Payload[FcmMessage]:
    """A data message: the Android app presents it by itself, as `notify_type` (alert or voip) says."""
    body = _body(push)
    found = {
        "statement_topic": body.topic.hex(),
        "sender_pubkey": body.sender.hex(),
        "notify_type": "voip" if push.wanted is Wanted.CALL else "alert",
    }
    data = _data_hex(push)
    if data is not None:
        full = {"statement_data": data, **found}
        if _fcm_size(full) <= receiver.payload_bytes:
            return Payload(_fcm_message(full), truncated=False)
    return Payload(_fcm_message({**found, "hash": push.envelope_id.hex()}), truncated=True)


def webpush(push: PushMessage, receiver: Receiver) -> Payload[bytes]:
    """What the page's service worker shows, as it has to with each push."""
    head = f'"title":{_quoted(receiver.title)},'
    data = _data_hex(push)
    if data is not None:
        body = f"{{{head}{_statement(push, data)}}}".encode()
        if len(body) <= receiver.payload_bytes:
            return Payload(body, truncated=False)
    return Payload(f"{{{head}{_statement(push, None)}}}".encode(), truncated=True)


def _data_hex(push: PushMessage) -> str | None:
    """None for data that was left behind because it fits no channel."""
    body = _body(push)
    if body.data is None:
        return None if body.truncated else ""
    return body.data.hex()


def _body(push: PushMessage) -> StatementBody:
    if not isinstance(push.body, StatementBody):
        raise TypeError("no push of the statement store")
    return push.body


@cache
def _alert(title: str, *, wake: bool = False) -> str:
    aps: dict[str, object] = {"alert": {"title": title}, "mutable-content": 1}
    if wake:
        aps["content-available"] = 1
    return json.dumps(aps, ensure_ascii=False, separators=(",", ":"))


@cache
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _apple_body(aps: str, push: PushMessage, data: str | None) -> bytes:
    return f'{{"aps":{aps},{_statement(push, data)}}}'.encode()


def _statement(push: PushMessage, data: str | None) -> str:
    # Hex needs no escaping; a JSON encoder that looks for what does takes five times as long.
    whole = data is not None
    quoted = f'"{data}"' if whole else "null"
    body = _body(push)
    found = f'"topic":"{body.topic.hex()}","sender_pubkey":"{body.sender.hex()}"'
    hint = "" if whole else f',"hash":"{push.envelope_id.hex()}"'
    return f'"statement":{{"data":{quoted},{found}{hint}}}'


def _fcm_size(data: dict[str, str]) -> int:
    # Google counts the bytes of keys and values; all of these are ASCII.
    return sum(len(key) + len(value) for key, value in data.items())


def _fcm_message(data: dict[str, str]) -> FcmMessage:
    return {"data": data, "android": {"priority": "high"}}
