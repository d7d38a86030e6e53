"""What a server asks to be pushed, in either profile, and what becomes of it on the way to the queue."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self
from uuid import UUID

from pydantic import Discriminator, Tag, model_validator

from api.bodies import at_most
from api.networks.zulip.arguments import Arguments
from api.networks.zulip.token_ids import TokenId, number_of
from clarion.channels import Channel
from clarion.networks.zulip.devices import Profile, device_id, unpack
from clarion.networks.zulip.payload import ApnsBody, Aps, Body, FcmBody, ProposedContent, Sealed, ShippedContent
from clarion.tables import Subscription

MOST_PUSHES = 1_000
"""In one request."""


class ApnsHeaders(Arguments):
    apns_priority: Literal[10, 5, 1]
    apns_push_type: Literal["alert", "background"]


class ApnsContent(ShippedContent):
    aps: Aps


class ShippedPush(Arguments):
    """What Zulip 12 sends for one device, of the kind that it takes it for."""

    channel: ClassVar[Channel]

    token_id: TokenId

    @property
    def name(self) -> str:
        """By which the server knows the device."""
        return self.token_id

    def subscription_id(self, server: UUID, realm: UUID) -> str:
        return device_id(server, realm, number_of(self.token_id))

    def suits(self, row: Subscription) -> bool:
        """Not the device that has registered the same token as one of another kind."""
        return bool(row.channel == self.channel)


class ShippedApnsPush(ShippedPush):
    channel = Channel.APNS

    http_headers: ApnsHeaders
    payload: ApnsContent

    def body(self, _row: Subscription | None) -> Body:
        """Raises `ValueError` for a priority that Apple does not take with this push type."""
        content = ShippedContent(push_key_id=self.payload.push_key_id, encrypted_data=self.payload.encrypted_data)
        asked = self.http_headers
        return ApnsBody(
            content=content, aps=self.payload.aps, push_type=asked.apns_push_type, priority=asked.apns_priority
        )


class ShippedFcmPush(ShippedPush):
    channel = Channel.FCM

    fcm_priority: Literal["high", "normal"]
    payload: ShippedContent

    def body(self, _row: Subscription | None) -> Body:
        return FcmBody(content=self.payload, priority=self.fcm_priority)


class ProposedPush(Arguments):
    """What a server of the proposal sends for one device: always an alert, by whichever provider the device has."""

    device_id: UUID
    encrypted_content: Sealed

    @property
    def name(self) -> str:
        return str(self.device_id)

    def subscription_id(self, _server: UUID, _realm: UUID) -> str:
        return self.name

    def suits(self, _row: Subscription) -> bool:
        return True

    def body(self, row: Subscription | None) -> Body:
        """Of an unknown device, as for an Android phone."""
        account = unpack(row.network_data).number if row else 0
        content = ProposedContent(push_account_id=account, encrypted_content=self.encrypted_content)
        return ApnsBody(content=content) if row and row.channel == Channel.APNS else FcmBody(content=content)


type AskedPush = ShippedApnsPush | ShippedFcmPush | ProposedPush


def _kind(push: Any) -> Channel:
    """By which form a push is read, and so what is said to be wrong with it."""
    return Channel.APNS if isinstance(push, Mapping) and "http_headers" in push else Channel.FCM


ShippedAnyPush = Annotated[
    Annotated[ShippedApnsPush, Tag(Channel.APNS)] | Annotated[ShippedFcmPush, Tag(Channel.FCM)], Discriminator(_kind)
]


class PushArguments(Arguments):
    """A shipped server gives `push_requests`, one of the proposal's `notifications`."""

    realm_uuid: UUID
    push_requests: Annotated[list[ShippedAnyPush], at_most(MOST_PUSHES)] | None = None
    notifications: Annotated[list[ProposedPush], at_most(MOST_PUSHES)] | None = None

    @model_validator(mode="after")
    def _of_one_profile(self) -> Self:
        if (self.push_requests is None) == (self.notifications is None):
            raise ValueError("exactly one of push_requests and notifications is needed")
        return self

    @property
    def profile(self) -> Profile:
        return Profile.PROPOSED if self.push_requests is None else Profile.SHIPPED

    @property
    def list_name(self) -> str:
        return "notifications" if self.push_requests is None else "push_requests"

    @property
    def pushes(self) -> list[AskedPush]:
        return [*(self.push_requests or ()), *(self.notifications or ())]
