"""Simulated users of XMTP: an inbox, its installations, and what they send and ask of Clarion.

All installations of an inbox share one root, from which a key is derived for each group and period: by it they attach an
HMAC to what they send, so that a server that has the keys can tell the inbox's own messages from others.
"""

import os
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from clarion.networks.xmtp import sender_hmac_key_v3
from clarion.networks.xmtp.sender_hmac import period_at, sender_hmac
from clarion.networks.xmtp.topics import group_topic, welcome_topic
from clarion.networks.xmtp.wire_pb2 import GroupMessage
from local.device import Device
from local.notifications import JsonObject, NotificationsClient

_ROOT_SIZE = 42
_GROUP_ID_SIZE = 16
_INSTALLATION_ID_SIZE = 32


class Mechanism(StrEnum):
    """How an installation is reached, as the service's JSON spells it."""

    APNS = "apnsDeviceToken"
    FCM = "firebaseDeviceToken"
    CUSTOM = "customToken"


def period_now() -> int:
    return period_at(int(time.time()))


class ChatGroup:
    """A group, or one of those that make up a DM; always the same for the same name."""

    def __init__(self, name: str) -> None:
        self.id = blake2b(name.encode(), digest_size=_GROUP_ID_SIZE).digest()

    @property
    def topic(self) -> str:
        return group_topic(self.id)


class Inbox:
    """A user's identity, always the same for the same name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._root = blake2b(name.encode(), digest_size=_ROOT_SIZE).digest()

    def hmac_keys(self, group: ChatGroup, period: int | None = None) -> Mapping[int, bytes]:
        """What the SDK hands out in `period`, by default now: the keys of that one and its neighbours."""
        period = period_now() if period is None else period
        return {near: sender_hmac_key_v3(self._root, group.id, near) for near in (period - 1, period, period + 1)}

    def message(
        self,
        group: ChatGroup,
        data: bytes,
        *,
        should_push: bool = True,
        period: int | None = None,
        is_commit: bool = False,
    ) -> bytes:
        """A group's message as a node takes it; what `data` would encrypt is of no matter.

        `period` is the one by the sender's clock, `should_push` what its SDK says of the content: false for a reaction.
        """
        key = sender_hmac_key_v3(self._root, group.id, period_now() if period is None else period)
        sealed = os.urandom(16) + data
        version = GroupMessage.V1(
            id=1,
            created_ns=time.time_ns(),
            group_id=group.id,
            data=sealed,
            sender_hmac=sender_hmac(key, sealed),
            should_push=should_push,
            is_commit=is_commit,
        )
        encoded: bytes = GroupMessage(v1=version).SerializeToString()
        return encoded


@dataclass(frozen=True)
class TopicRequest:
    """What an installation says of one topic when it subscribes."""

    topic: str
    hmac_keys: Mapping[int, bytes]
    is_silent: bool = False

    def as_json(self) -> JsonObject:
        keys = [
            {"thirtyDayPeriodsSinceEpoch": period, "key": b64encode(key).decode()}
            for period, key in self.hmac_keys.items()
        ]
        return {"topic": self.topic, "hmacKeys": keys, "isSilent": self.is_silent}


class InstalledApp:
    """An app on one device, which is a client of its own to Clarion; always the same for the same name."""

    def __init__(self, inbox: Inbox, name: str) -> None:
        self.inbox = inbox
        self.device = Device(f"{inbox.name}, {name}")
        self._key = blake2b(self.device.name.encode(), digest_size=_INSTALLATION_ID_SIZE).digest()

    @property
    def id(self) -> str:
        return self._key.hex()

    @property
    def welcomes(self) -> TopicRequest:
        """Where others invite it to groups; there is no HMAC."""
        return TopicRequest(welcome_topic(self._key), {})

    def subscription_to(self, group: ChatGroup, *, is_silent: bool = False, period: int | None = None) -> TopicRequest:
        """With the keys that its inbox has in `period`, by default now."""
        return TopicRequest(group.topic, self.inbox.hmac_keys(group, period), is_silent)

    async def register(self, client: NotificationsClient, mechanism: Mechanism, token: str) -> int:
        """Returns until when it is valid, in UNIX milliseconds."""
        request = {"installationId": self.id, "deliveryMechanism": {mechanism: token}}
        answer = await client.call("RegisterInstallation", request)
        return int(answer["validUntil"])

    async def subscribe(self, client: NotificationsClient, topics: Sequence[TopicRequest]) -> None:
        request = {"installationId": self.id, "subscriptions": [topic.as_json() for topic in topics]}
        await client.call("SubscribeWithMetadata", request)

    async def unsubscribe(self, client: NotificationsClient, topics: Sequence[str]) -> None:
        await client.call("Unsubscribe", {"installationId": self.id, "topics": list(topics)})

    async def delete(self, client: NotificationsClient) -> None:
        await client.call("DeleteInstallation", {"installationId": self.id})
