"""What each push carries: the content as the server sealed it for the device, beside the name of the key that opens it.

    APNs   {"push_key_id": 2408, "encrypted_data": "…", "aps": …}          as Zulip 12 ships it
           {"push_account_id": 17, "encrypted_content": "…", "aps": …}     as the proposal (ZAP 2) has it
    FCM    data: the same without `aps`, all values as text

Nothing of it can be left out, so a server is refused what doesn't `fit`. All that a phone shows by itself is a fixed title:
a server can't show anything else without the device's key.
"""

from collections.abc import Mapping
from hashlib import sha256
from itertools import islice
from typing import Annotated, Any, Literal, Self
from uuid import UUID, uuid5

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from clarion import compact_json
from clarion.channels import CHANNELS as SPECS
from clarion.channels import Channel
from clarion.decisions import Purpose, Wanted
from clarion.messages import PushMessage
from clarion.networks import ZULIP, FcmMessage, Payload, Receiver
from clarion.networks.zulip.devices import ID_RANGE

CHANNELS = (Channel.APNS, Channel.FCM)
KEPT_S = 28 * 86_400
"""How long a push is of use. Zulip asks for no time; this is what FCM keeps at most."""

Sealed = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]+={0,2}$", repr=False)]
"""Base64, of which nobody here looks into the bytes. SQS takes no message with certain other characters."""


class _Exact(BaseModel):
    """A member that is no field is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _not_endless(cls, given: Any) -> Any:
        """One member more than the fields have names: each that is refused takes memory, and one of these is."""
        return dict(islice(given.items(), 2 * len(cls.model_fields) + 1)) if isinstance(given, Mapping) else given


class ShippedContent(_Exact):
    """As Zulip 12 ships it: `push_key_id` names the device's symmetric key."""

    push_key_id: int = Field(ge=0, lt=1 << 32)
    encrypted_data: Sealed

    @property
    def sealed(self) -> str:
        return self.encrypted_data


class ProposedContent(_Exact):
    """As the proposal has it: `push_account_id` names its key pair."""

    push_account_id: int = Field(ge=ID_RANGE.start, lt=ID_RANGE.stop)
    encrypted_content: Sealed

    @property
    def sealed(self) -> str:
        return self.encrypted_content


type Content = ShippedContent | ProposedContent


class ApsAlert(_Exact):
    """What a phone shows until the app has opened the content."""

    title: Literal["New notification"]


class Aps(_Exact):
    """Apple's part of a payload, as far as a server may choose it."""

    model_config = ConfigDict(validate_by_name=True)

    mutable_content: Literal[1] = Field(alias="mutable-content")
    alert: ApsAlert | None = None
    sound: Literal["default"] | None = None


ALERT = Aps(mutable_content=1, alert=ApsAlert(title="New notification"), sound="default")
"""As Zulip 12 asks for it; the proposal's servers leave it to the bouncer."""


class ApnsBody(_Exact):
    """`priority` is Apple's: 10 at once, 5 when it costs the phone little, 1 without waking it."""

    content: Content
    aps: Aps = ALERT
    push_type: Literal["alert", "background"] = "alert"
    priority: Literal[10, 5, 1] = 10

    @model_validator(mode="after")
    def _of_its_push_type(self) -> Self:
        if self.push_type == "background" and self.priority == 10:
            raise ValueError("Apple takes no background push of priority 10")
        return self


class FcmBody(_Exact):
    content: Content
    priority: Literal["high", "normal"] = "high"


type Body = ApnsBody | FcmBody


class ZulipBody(RootModel[Body]):
    """What a message on a push queue carries: the body of its channel."""

    model_config = ConfigDict(frozen=True)


def push_of(device_id: str, client_id: bytes, body: Body, now: int) -> PushMessage:
    """The push of `body` to a device; `client_id` is its server's. `now` is in UNIX milliseconds.

    What has the same content for the same device is the same push, whenever it comes: it has the same receipt, and by its
    `envelope_id` the same id at the provider.
    """
    digest = sha256(body.content.sealed.encode()).digest()
    subscription_id = UUID(device_id)
    return PushMessage(
        network=ZULIP,
        purpose=Purpose.DIRECT,
        receipt=uuid5(subscription_id, digest.hex()),
        observed_at=now,
        envelope_id=digest,
        subscription_id=subscription_id,
        client_id=client_id,
        channel=Channel.APNS if isinstance(body, ApnsBody) else Channel.FCM,
        wanted=_wanted(body),
        expires_at=now // 1000 + KEPT_S,
        body=body,
    )


def _wanted(body: Body) -> Wanted:
    """Google makes no difference but the priority."""
    in_background = isinstance(body, ApnsBody) and body.push_type == "background"
    return Wanted.BACKGROUND if in_background else Wanted.ALERT


def fits(channel: Channel, body: Body) -> bool:
    """Whether `channel` takes it; one of another channel's body takes none."""
    try:
        compose(channel, body, SPECS[channel].payload_bytes)
    except ValueError:
        return False
    return True


def payload(channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
    """What `channel` sends for a push of this network. Raises `ValueError` as `compose` does."""
    if not isinstance(push.body, ZulipBody):
        raise TypeError("no push of Zulip")
    return compose(channel, push.body.root, receiver.payload_bytes)


def compose(channel: Channel, body: Body, payload_bytes: int) -> Payload[bytes] | Payload[FcmMessage]:
    """Raises `ValueError` for what is larger than that, or made for another channel."""
    match channel, body:
        case Channel.APNS, ApnsBody():
            return _apns(body, payload_bytes)
        case Channel.FCM, FcmBody():
            return _fcm(body, payload_bytes)
    raise ValueError("a body of another channel")


def _apns(body: ApnsBody, payload_bytes: int) -> Payload[bytes]:
    """A removal takes no message's place at Apple."""
    aps = body.aps.model_dump(by_alias=True, exclude_none=True)
    composed = compact_json.encode({**body.content.model_dump(), "aps": aps})
    _check_size(len(composed), payload_bytes)
    return Payload(composed, truncated=False, priority=body.priority, transient=body.push_type == "background")


def _fcm(body: FcmBody, payload_bytes: int) -> Payload[FcmMessage]:
    data = {name: str(value) for name, value in body.content}
    _check_size(sum(len(name.encode()) + len(value.encode()) for name, value in data.items()), payload_bytes)
    return Payload({"data": data, "android": {"priority": body.priority}}, truncated=False)


def _check_size(size: int, payload_bytes: int) -> None:
    if size > payload_bytes:
        raise ValueError(f"{size} bytes, of {payload_bytes} at most")
