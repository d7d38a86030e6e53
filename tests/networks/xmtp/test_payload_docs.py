"""The payloads as docs/receiving.md and docs/webhook.md show them, against those that are made."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clarion.channels import Channel
from clarion.decisions import Wanted
from clarion.networks.xmtp.envelope import TopicMessage
from clarion.networks.xmtp.payload import TopicBody, body_of
from tests.networks.xmtp.test_payload import push_of, refresh, sent

DOCS = Path(__file__).parents[3] / "docs"
TOPIC = "/xmtp/mls/1/g-00ff/proto"
MESSAGE = TopicMessage(TOPIC, 1763812800000000000, b"\x0a\x02\x30\x01")
TOO_LARGE = TopicBody(
    topic=TOPIC,
    timestamp_ns=MESSAGE.timestamp_ns,
    kind=MESSAGE.kind,
    should_push=True,
    idempotency_key=MESSAGE.idempotency_key,
)


def shape(found: Any) -> Any:
    """Members, to any depth, without their values."""
    return {name: shape(value) for name, value in found.items()} if isinstance(found, dict) else type(found).__name__


def table(name: str) -> dict[str, str]:
    """By what is pushed, the payload as the page has it."""
    page = (DOCS / "receiving.md").read_text().partition(f"| to {name} |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| (.+?) \| `(\{.+\})` \|$", page, re.MULTILINE))


def members(payload: str) -> list[str]:
    """Also of a payload whose values are left out."""
    return sorted(re.findall(r'"([\w-]+)":', payload))


def shown(payload: dict[str, Any], page: str) -> list[str]:
    """The members of a payload as far as the page goes into them."""
    return members(json.dumps(payload if '"aps":{' in page else payload | {"aps": ""}, separators=(",", ":")))


def pushes(channel: Channel) -> list[Any]:
    body = body_of(MESSAGE, channel)
    silent = push_of(body, Wanted.BACKGROUND, channel)
    return [
        sent(channel, one) for one in (push_of(body, channel=channel), silent, push_of(TOO_LARGE), refresh(channel))
    ]


def test_the_page_shows_what_goes_to_apns() -> None:
    rows = list(table("APNs").values())
    made = pushes(Channel.APNS)
    assert len(rows) == len(made)
    for payload, row in zip(made, rows, strict=True):
        assert shown(payload, row) == members(row)
    assert json.loads(rows[-1]) == made[-1]


def test_the_page_shows_what_goes_to_fcm() -> None:
    rows = list(table("FCM").values())
    message, silent, truncated, refreshing = (push["data"] for push in pushes(Channel.FCM))
    assert message == silent
    assert [members(row) for row in rows] == [sorted(data) for data in (message, truncated, refreshing)]
    assert json.loads(rows[-1]) == refreshing


@pytest.fixture
def bodies() -> list[Any]:
    return [json.loads(one) for one in re.findall(r"```json\n(.*?)```", (DOCS / "webhook.md").read_text(), re.DOTALL)]


def test_the_page_shows_the_webhooks_three_bodies(bodies: list[Any]) -> None:
    channel = Channel.WEBHOOK
    parsed = body_of(MESSAGE, channel).model_copy(update={"should_push": True})
    made = [sent(channel, push) for push in (push_of(parsed), push_of(TOO_LARGE), refresh(channel))]
    assert [shape(one) for one in bodies[:3]] == [shape(one) for one in made]
    lengths = [len(one["idempotency_key"]) for one in made]
    assert [len(one["idempotency_key"]) for one in bodies[:3]] == lengths == [40, 40, 64]
