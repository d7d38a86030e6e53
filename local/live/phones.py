"""The phones on the page: what each shows of its pushes, decrypted where this run holds the key."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from clarion.channels import Channel
from clarion.networks.xmtp.wire_pb2 import GroupMessage
from console.output import Report
from local.provider import Journal, ReceivedPush

ENCRYPTED = "An encrypted message"
"""Shown of what only somebody else could read."""
LONGEST_SHOWN = 1_000
"""Characters that a phone shows of a text: a webhook may bring more than a page bears."""
_XMTP_SALT = 16
"""Bytes that `local.xmtp_device` puts before the content."""

_FETCH_S = 5.0
"""An app that has to ask its server shows that there is something, if the server takes longer."""

type Reader = Callable[[ReceivedPush], str | Awaitable[str]]
"""What the app shows of a push, perhaps once it has asked its server. Raises for what it can't read."""


@dataclass(frozen=True)
class PhoneOnPage:
    name: str
    network: str
    channel: Channel
    read: Reader


class ShownPush(Report):
    """`at` in UNIX milliseconds; `reason` is why the provider refused it, None if it did not. Never the token."""

    number: str
    phone: str
    network: str | None
    channel: Channel
    text: str
    at: int
    reason: str | None


class Phones:
    """By their tokens. A push to a token of no phone here is shown as one to another device."""

    def __init__(self, journals: Mapping[Channel, Journal]) -> None:
        """That of APNs has what comes by VoIP, too."""
        self._phones: dict[str, PhoneOnPage] = {}
        self._journals = journals
        self._seen = dict.fromkeys(journals, 0)

    def add(self, token: str, phone: PhoneOnPage) -> None:
        self._phones[token] = phone

    def as_json(self) -> list[dict[str, str]]:
        """Each phone once, though it may have had several tokens."""
        known = dict.fromkeys((phone.name, phone.network, phone.channel) for phone in self._phones.values())
        return [{"name": name, "network": network, "channel": channel} for name, network, channel in known]

    async def news(self) -> list[dict[str, Any]] | None:
        """What has been pushed since the last call; None if nothing was."""
        new = [(channel, push) for channel, journal in self._journals.items() for push in self._new(channel, journal)]
        shown = await asyncio.gather(*(self._shown(channel, push) for channel, push in new))
        return [push.model_dump(mode="json") for push in shown] or None

    def _new(self, channel: Channel, journal: Journal) -> list[ReceivedPush]:
        pushes = journal.since(self._seen[channel])
        if pushes:
            self._seen[channel] = pushes[-1].number + 1
        return pushes

    async def _shown(self, channel: Channel, push: ReceivedPush) -> ShownPush:
        phone = self._phones.get(push.token)
        if push.headers.get("apns-push-type") == "voip":
            channel = Channel.VOIP
        return ShownPush(
            number=f"{channel}-{push.number}",
            phone=phone.name if phone else "another device",
            network=phone.network if phone else None,
            channel=channel,
            text=await _text(push, phone.read if phone else statement_text),
            at=round(push.at * 1000),
            reason=push.reason,
        )


async def _text(push: ReceivedPush, read: Reader) -> str:
    try:
        found = read(push)
        if not isinstance(found, str):
            async with asyncio.timeout(_FETCH_S):
                found = await found
    except Exception:  # noqa: BLE001 - whatever it is, the phone shows that there is something, and other phones theirs
        return ENCRYPTED
    return found if len(found) <= LONGEST_SHOWN else f"{found[:LONGEST_SHOWN]} …"


def statement_text(push: ReceivedPush) -> str:
    """A statement's data is what its app encrypts; the senders of this run leave it as text."""
    match push.payload:
        case {"statement": {"data": str(data)}} | {"message": {"data": {"statement_data": str(data)}}}:
            return bytes.fromhex(data).decode()
        case {"statement": {"data": None}}:
            return "A message too large for a push"
    raise ValueError("no statement")


def xmtp_text(push: ReceivedPush) -> str:
    match push.payload:
        case {"encryptedMessage": str(message)} | {"message": {"message": str(message)}}:
            group_message = GroupMessage.FromString(b64decode(message))
            return bytes(group_message.v1.data)[_XMTP_SALT:].decode()
    raise ValueError("no message")
