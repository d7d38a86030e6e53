"""Notifications as each subscriber has them, kept for 30 days: for history, for receipts, and for the link in each.

A subscriber's are numbered, and each is a token of the subscriber's bucket: it says what is `spent` with it, as in
`buckets`, so that the newest is the bucket's state. Numbers have no gaps: whoever adds one has seen the one before, and
it is refused if somebody else was faster. The welcome, which takes no token, has the number 0.

Their ids are those of the messages: UUIDs of version 7, which tell their time, made of what they are for. So a command
that is carried out again makes the same messages. https://www.rfc-editor.org/rfc/rfc9562#section-5.7
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from clarion import base64url, compact_json
from clarion.networks.walletconnect.commands import DappNotification
from clarion.networks.walletconnect.needs import NOTIFICATIONS
from clarion.tables import find_row, save_if

KEPT_SECONDS = 30 * 86_400
WELCOME_NUMBER = 0
_UUID_BYTES, _NUMBER_BYTES = 16, 4
_RANDOM_BITS = 74


class SentNotification(Model):
    """`message` is the JSON of what people are shown; `url` is where its link leads. Instants are in UNIX milliseconds.

    `sent_at` is when the dapp first used its id, `kept_at` when it was kept for this subscriber, if that may be later.
    """

    class Meta:
        table_name = NOTIFICATIONS

    subscription_id = UnicodeAttribute(hash_key=True)
    number = NumberAttribute(range_key=True)
    notification_id = UnicodeAttribute()
    spent = NumberAttribute()
    message = UnicodeAttribute()
    url = UnicodeAttribute(null=True)
    is_read = BooleanAttribute(default=False)
    sent_at = NumberAttribute()
    kept_at = NumberAttribute(null=True)
    received_at = NumberAttribute(null=True)
    ttl = NumberAttribute()

    @property
    def content(self) -> dict[str, str]:
        """`title`, `body`, `icon`, `url` and `type`: the document's `msg`, in the order of its hash."""
        return dict(json.loads(self.message))

    def __repr__(self) -> str:
        return f"SentNotification({self.subscription_id}, {self.number})"


class NotificationKey(NamedTuple):
    """The id keeps links from being guessed."""

    subscription_id: str
    number: int
    notification_id: str


class AddressedNotification(NamedTuple):
    """A project's notification for one subscriber. `issued_at` is when its id was first used, in UNIX milliseconds."""

    project_id: str
    notification: DappNotification
    subscription_id: str
    issued_at: int

    @property
    def id(self) -> str:
        return notification_id(self.project_id, self.notification.id, self.subscription_id, self.issued_at)

    def row(self, number: int, server: str, spent: int = 0) -> SentNotification:
        """`server` is the Notify server's domain, which the link leads to."""
        key, url = NotificationKey(self.subscription_id, number, self.id), self.notification.url
        link = f"https://{server}/v1/notification/{link_id(key)}" if url else ""
        return SentNotification(
            key.subscription_id,
            number,
            notification_id=key.notification_id,
            spent=spent,
            message=compact_json.encode(_content(self.notification, link)).decode(),
            url=url,
            sent_at=self.issued_at,
            ttl=self.issued_at // 1000 + KEPT_SECONDS,
        )


def _content(notification: DappNotification, link: str) -> dict[str, str]:
    content = {"title": notification.title, "body": notification.body, "icon": notification.icon or "", "url": link}
    return {**content, "type": notification.type}


def notification_id(project_id: str, given_id: str, subscription_id: str, issued_at: int) -> str:
    """Of the notification that the project names `given_id`, for one subscriber. `issued_at` is in UNIX milliseconds."""
    digest = int.from_bytes(sha256(f"{project_id} {subscription_id} {given_id}".encode()).digest())
    random = digest % (1 << _RANDOM_BITS)
    high, low = random >> 62, random % (1 << 62)
    return str(UUID(int=issued_at << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low))


def link_id(key: NotificationKey) -> str:
    """What the link in a notification names it by."""
    number = key.number.to_bytes(_NUMBER_BYTES)
    return base64url.encode(UUID(key.subscription_id).bytes + UUID(key.notification_id).bytes + number)


def key_of_link(link: str) -> NotificationKey:
    """Undo `link_id`. Raises `ValueError` for what is none."""
    raw = base64url.decode(link)
    ids, number = raw[:-_NUMBER_BYTES], raw[-_NUMBER_BYTES:]
    subscription, notification = UUID(bytes=ids[:_UUID_BYTES]), UUID(bytes=ids[_UUID_BYTES:])
    return NotificationKey(str(subscription), int.from_bytes(number), str(notification))


def find_linked(link: str) -> SentNotification | None:
    """What a link is in, if it is in any."""
    try:
        key = key_of_link(link)
    except ValueError:
        return None
    found = find_notification(key.subscription_id, key.number)
    return found if found is not None and found.notification_id == key.notification_id else None


def find_notification(subscription_id: str, number: int) -> SentNotification | None:
    return find_row(SentNotification, subscription_id, number)


def add(row: SentNotification) -> bool:
    """Whether its number was still free."""
    return save_if(row, condition=SentNotification.number.does_not_exist())


def newest_first(subscription_id: str, now: int, limit: int | None = None) -> Iterator[SentNotification]:
    """Those of a subscription that are still kept, of the `limit` newest; `now` is in UNIX seconds."""
    found = SentNotification.query(subscription_id, scan_index_forward=False, consistent_read=True, limit=limit)
    return (row for row in found if row.ttl > now)
