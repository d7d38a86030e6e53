"""A notification as a dapp asks for it."""

from hashlib import sha256
from typing import Annotated
from urllib.parse import urlsplit
from uuid import UUID, uuid4

from pydantic import AfterValidator, AliasChoices, Field

from api.networks.walletconnect.arguments import Account, DappArguments, Items
from clarion import compact_json
from clarion.networks.walletconnect.commands import DappNotification


def _https(text: str) -> str:
    if not _has_host(text):
        raise ValueError("is no URL of https")
    return text


def _has_host(text: str) -> bool:
    try:
        return text.startswith("https://") and bool(urlsplit(text).hostname)
    except ValueError:
        return False


Title = Annotated[str, Field(min_length=1, max_length=64)]
Body = Annotated[str, Field(min_length=1, max_length=255)]
Icon = Annotated[str, Field(min_length=1, max_length=255)]
Url = Annotated[Icon, AfterValidator(_https)]
"""Lengths count characters."""
NotificationId = Annotated[str, Field(min_length=1, max_length=255)]


class NotificationContent(DappArguments):
    type: UUID
    title: Title
    body: Body
    icon: Icon | None = None
    url: Url | None = None

    @property
    def digest(self) -> str:
        """By which two notifications are known to be the same."""
        return sha256(compact_json.encode(self.model_dump(mode="json"))).hexdigest()


class NotificationArguments(DappArguments):
    """`notification_id` is the project's own name for it, by which it is sent once."""

    notification_id: NotificationId | None = Field(
        default=None, validation_alias=AliasChoices("notification_id", "notificationId")
    )
    notification: NotificationContent
    accounts: Annotated[Items[Account], Field(min_length=1)]

    @property
    def distinct_accounts(self) -> list[str]:
        return list(dict.fromkeys(self.accounts))

    def named(self) -> DappNotification:
        """With a random id if the project gave none."""
        return DappNotification(
            id=self.notification_id or str(uuid4()),
            **self.notification.model_dump(mode="json"),
        )
