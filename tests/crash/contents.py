"""What the pushes of the scenarios of dispatch say, and by what they are known when they arrive."""

from collections.abc import Callable
from typing import NamedTuple

from pydantic import BaseModel

from clarion.channels import CHANNELS, Channel
from clarion.decisions import Wanted
from clarion.networks import STATEMENTS, XMTP
from clarion.networks.statements.payload import StatementBody
from clarion.networks.xmtp import decode
from clarion.networks.xmtp.payload import TopicBody, body_of
from local.provider import ReceivedPush
from tests.xmtp import Inbox

NOW = 1_800_000_000.0


class Content(NamedTuple):
    network: str
    body: BaseModel
    is_shown_by: Callable[[ReceivedPush], bool]
    wanted: Wanted = Wanted.ALERT


def _message(channel: Channel, size: int) -> TopicBody:
    return body_of(decode(Inbox(b"bo").message(NOW, bytes(size))), channel)


def _is_alert(push: ReceivedPush) -> bool:
    return push.headers["apns-push-type"] == "alert" and "encryptedMessage" in push.payload


def _is_silent(push: ReceivedPush) -> bool:
    return push.headers["apns-push-type"] == "background" and "encryptedMessage" in push.payload


def _is_truncated(push: ReceivedPush) -> bool:
    return push.payload["truncated"] is True and "encryptedMessage" not in push.payload


OF_STATEMENTS = [
    Content(
        STATEMENTS,
        StatementBody(sender=bytes(32), topic=bytes(32), data=b"sealed"),
        lambda push: "statement" in push.payload,
    )
]
OF_XMTP = [
    Content(XMTP, _message(Channel.APNS, 600), _is_alert),
    Content(XMTP, _message(Channel.APNS, 600), _is_silent, Wanted.BACKGROUND),
    Content(XMTP, _message(Channel.APNS, CHANNELS[Channel.APNS].payload_bytes), _is_truncated),
]
BY_WEBHOOK = [
    Content(XMTP, _message(Channel.WEBHOOK, 600), lambda push: "message" in push.payload["message"]),
    Content(
        XMTP,
        _message(Channel.WEBHOOK, CHANNELS[Channel.WEBHOOK].payload_bytes),
        lambda push: push.payload["message"]["truncated"] is True,
    ),
]
