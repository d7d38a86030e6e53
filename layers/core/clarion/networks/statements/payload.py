"""What each push carries: the matched statement if it fits its channel, otherwise only the way to find it.

All bytes of a statement are lower-case hex without a prefix. A truncated payload has a null `data` (FCM: no such
key) and the statement's `hash`, by which the app finds it in the store. A statement that has no data gives an empty
string instead: no app should go and fetch what does not exist.
"""

import json
from functools import cache
from typing import Annotated, NamedTuple, TypedDict

from pydantic import Field

from clarion.channels import CHANNELS, Channel
from clarion.messages import PushMessage

APNS_LIMIT, VOIP_LIMIT, FCM_LIMIT = (
    CHANNELS[channel].payload_bytes for channel in (Channel.APNS, Channel.VOIP, Channel.FCM)
)
MAX_DATA_SIZE = max(row.payload_bytes for row in CHANNELS.values()) // 2
"""Statement data of more bytes than this fits no channel, and need not travel to one."""

TITLE = "Polkadot App"
type Title = Annotated[str, Field(min_length=1, max_length=200)]
"""An alert's. A lone surrogate is no text to pydantic, and 200 characters leave a payload room, however escaped."""


class Payload[Body](NamedTuple):
    body: Body
    truncated: bool


class FcmMessage(TypedDict):
    """The part of an FCM message that doesn't depend on the device; `token`, `ttl` and the like go beside it."""

    data: dict[str, str]
    android: dict[str, str]


def apns(push: PushMessage, *, title: str = TITLE) -> Payload[bytes]:
    """An alert that the app's notification service extension rewrites; a truncated one also wakes the app to fetch."""
    data = _data_hex(push)
    if data is not None:
        body = _apple_body(_alert(title), push, data)
        if len(body) <= APNS_LIMIT:
            return Payload(body, truncated=False)
    return Payload(_apple_body(_alert(title, wake=True), push, None), truncated=True)


def voip(push: PushMessage) -> Payload[bytes]:
    """A call. `aps` is empty, since the app has CallKit show it."""
    data = _data_hex(push)
    if data is not None:
        body = _apple_body("{}", push, data)
        if len(body) <= VOIP_LIMIT:
            return Payload(body, truncated=False)
    return Payload(_apple_body("{}", push, None), truncated=True)


def fcm(push: PushMessage) -> Payload[FcmMessage]:
    """A data message: the Android app presents it by itself, as `notify_type` (alert or voip) says."""
    found = {
        "statement_topic": push.topic.hex(),
        "sender_pubkey": push.sender_pubkey.hex(),
        "notify_type": push.push_type.value,
    }
    data = _data_hex(push)
    if data is not None:
        full = {"statement_data": data, **found}
        if _fcm_size(full) <= FCM_LIMIT:
            return Payload(_fcm_message(full), truncated=False)
    return Payload(_fcm_message({**found, "hash": push.statement_hash.hex()}), truncated=True)


def _data_hex(push: PushMessage) -> str | None:
    """None for data that was left behind because it fits no channel."""
    if push.data is None:
        return None if push.truncated else ""
    return push.data.hex()


@cache
def _alert(title: str, *, wake: bool = False) -> str:
    aps: dict[str, object] = {"alert": {"title": title}, "mutable-content": 1}
    if wake:
        aps["content-available"] = 1
    return json.dumps(aps, ensure_ascii=False, separators=(",", ":"))


def _apple_body(aps: str, push: PushMessage, data: str | None) -> bytes:
    # Hex needs no escaping; a JSON encoder that looks for what does takes five times as long.
    whole = data is not None
    quoted = f'"{data}"' if whole else "null"
    found = f'"topic":"{push.topic.hex()}","sender_pubkey":"{push.sender_pubkey.hex()}"'
    hint = "" if whole else f',"hash":"{push.statement_hash.hex()}"'
    return f'{{"aps":{aps},"statement":{{"data":{quoted},{found}{hint}}}}}'.encode()


def _fcm_size(data: dict[str, str]) -> int:
    # Google counts the bytes of keys and values; all of these are ASCII.
    return sum(len(key) + len(value) for key, value in data.items())


def _fcm_message(data: dict[str, str]) -> FcmMessage:
    return {"data": data, "android": {"priority": "high"}}
