"""What each push carries: the matched statement if it fits, otherwise only the way to find it.

All values of a statement are lower-case hex without a prefix. A payload that would exceed its channel's limit is
truncated: its `data` is null (FCM: the key is absent), which tells the app to fetch the statement from the store.

Three states of `data_hex` tell them apart: the data; `""` for a statement that has none, so that no app goes to
fetch what does not exist; `None` for data that no channel can carry and that therefore did not come along.
"""

import json
from functools import cache
from typing import Literal, NamedTuple, TypedDict

APNS_LIMIT = 4096  # https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
VOIP_LIMIT = 5120
FCM_LIMIT = (
    4096  # over keys and values: https://firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type
)
MAX_DATA_HEX = max(APNS_LIMIT, VOIP_LIMIT, FCM_LIMIT)

TITLE = "Polkadot App"

type RuleNotifyType = Literal["alert", "voip"]
"""How an Android app is to present a push; on iOS the channel itself says it."""


class Payload[Body](NamedTuple):
    body: Body
    truncated: bool


class FcmMessage(TypedDict):
    """The part of an FCM message that doesn't depend on the device; the sender adds `token`, and `ttl` if any."""

    data: dict[str, str]
    android: dict[str, str]


def hex_data(data: bytes | None) -> str | None:
    """A statement's data as the functions below take it: None if it is too long for every channel."""
    if data is None:
        return ""
    return data.hex() if 2 * len(data) <= MAX_DATA_HEX else None


def apns(*, data_hex: str | None, topic_hex: str, sender_hex: str, title: str = TITLE) -> Payload[bytes]:
    """An alert whose text the app's notification service extension replaces; woken to fetch if truncated."""
    if data_hex is not None:
        body = _apple_body(_alert(title), data_hex, topic_hex, sender_hex)
        if len(body) <= APNS_LIMIT:
            return Payload(body, truncated=False)
    return Payload(_apple_body(_alert(title, wake=True), None, topic_hex, sender_hex), truncated=True)


def voip(*, data_hex: str | None, topic_hex: str, sender_hex: str) -> Payload[bytes]:
    """A call. `aps` is empty, since CallKit shows it and not the system."""
    if data_hex is not None:
        body = _apple_body("{}", data_hex, topic_hex, sender_hex)
        if len(body) <= VOIP_LIMIT:
            return Payload(body, truncated=False)
    return Payload(_apple_body("{}", None, topic_hex, sender_hex), truncated=True)


def fcm(
    *, data_hex: str | None, topic_hex: str, sender_hex: str, notify_type: RuleNotifyType = "alert"
) -> Payload[FcmMessage]:
    """A data message, which the Android app itself presents."""
    data = {"statement_topic": topic_hex, "sender_pubkey": sender_hex, "notify_type": notify_type}
    truncated = True
    if data_hex is not None:
        full = {"statement_data": data_hex, **data}
        if _fcm_size(full) <= FCM_LIMIT:
            data, truncated = full, False
    return Payload(FcmMessage(data=data, android={"priority": "high"}), truncated)


def _fcm_size(data: dict[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in data.items())


@cache
def _alert(title: str, *, wake: bool = False) -> str:
    aps: dict[str, object] = {"alert": {"title": title}, "mutable-content": 1}
    if wake:
        aps["content-available"] = 1
    return json.dumps(aps, ensure_ascii=False, separators=(",", ":"))


def _apple_body(aps: str, data_hex: str | None, topic_hex: str, sender_hex: str) -> bytes:
    # Hex needs no escaping, so splicing it in is safe; a JSON encoder takes five times as long, looking for what does.
    data = "null" if data_hex is None else f'"{data_hex}"'
    statement = f'{{"data":{data},"topic":"{topic_hex}","sender_pubkey":"{sender_hex}"}}'
    return f'{{"aps":{aps},"statement":{statement}}}'.encode()
