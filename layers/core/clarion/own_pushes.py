"""Clarion's own pushes, alike for every network: a verification carries a code to an app, a wake-up nothing.

Both are background pushes, which show nothing, where the channel has such: a VoIP token takes calls alone, so the app ends
at once the one that it has to report, and a browser has to show a notification for every push.

    APNs, VoIP   {"aps": …, "clarion": {"purpose": "verification", "subscription_id": "…", "code": "…"}}
    FCM          data: {"clarion": the same object as JSON text}
    Web Push     {"clarion": …}
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from clarion.channels import Channel
from clarion.decisions import Purpose
from clarion.networks import FcmMessage, Payload, background_fcm

if TYPE_CHECKING:
    from clarion.messages import PushMessage


class MaskedCode(BaseModel):
    """What a message has of a verification: `masked` is the code XOR its subscription's `proof_mask`, in base64url.

    So a message that is kept, as among the dead letters, says nothing of the code.
    """

    model_config = ConfigDict(defer_build=True, frozen=True)

    masked: str = Field(repr=False)


class VerificationBody(BaseModel):
    """`code` is 32 random bytes in base64url without padding, which the app hands back."""

    model_config = ConfigDict(defer_build=True, frozen=True)

    code: str = Field(repr=False)


class WakeUpBody(BaseModel):
    """A wake-up has nothing to say."""

    model_config = ConfigDict(defer_build=True, frozen=True)


BODIES: Mapping[Purpose, type[BaseModel]] = {Purpose.VERIFICATION: MaskedCode, Purpose.WAKE_UP: WakeUpBody}
"""In messages, for the purposes that are Clarion's own; all others are the networks'."""
CHANNELS = (Channel.APNS, Channel.VOIP, Channel.FCM, Channel.WEBPUSH)


def compose(channel: Channel, push: "PushMessage") -> Payload[bytes] | Payload[FcmMessage]:
    """What `channel` sends for a push of Clarion's own, whose code, if it has one, is unmasked.

    Raises `LookupError` for a channel that takes none.
    """
    content = json.dumps(_content(push), separators=(",", ":"))
    match channel:
        case Channel.APNS:
            return Payload(f'{{"aps":{{"content-available":1}},"clarion":{content}}}'.encode(), truncated=False)
        case Channel.VOIP:
            return Payload(f'{{"aps":{{}},"clarion":{content}}}'.encode(), truncated=False)
        case Channel.FCM:
            return Payload(background_fcm({"clarion": content}), truncated=False)
        case Channel.WEBPUSH:
            return Payload(f'{{"clarion":{content}}}'.encode(), truncated=False)
    raise LookupError(channel)


def _content(push: "PushMessage") -> dict[str, str]:
    named = {"purpose": push.purpose.value, "subscription_id": str(push.subscription_id)}
    return named | {"code": push.body.code} if isinstance(push.body, VerificationBody) else named
