"""The figures of docs/privacy.md, against the payloads that are made."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clarion.channels import CHANNELS, Channel
from clarion.messages import PushMessage
from clarion.networks import Receiver, network
from clarion.sealing import payload_bytes
from clarion.settings import TITLE
from tests.core.test_sealing import STATEMENT_CHANNELS, XMTP_CHANNELS, message, statement

type Make = Callable[[Channel, int], PushMessage]

PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text()
ROW = re.compile(r"^\| (statement|XMTP's message)(, sealed)? \| (.+) \|$", re.MULTILINE)
COLUMNS = (Channel.APNS, Channel.VOIP, Channel.FCM, Channel.WEBPUSH)
NETWORKS: dict[str, tuple[Make, Sequence[Channel]]] = {
    "statement": (statement, STATEMENT_CHANNELS),
    "XMTP's message": (message, XMTP_CHANNELS),
}


def is_whole(push: PushMessage, *, sealed: bool) -> bool:
    most = payload_bytes(push.channel, TITLE) if sealed else CHANNELS[push.channel].payload_bytes
    return not network(push.network).payload(push.channel, push, Receiver(TITLE, most)).truncated


def shown(channel: Channel, figures: str) -> int | None:
    text = figures.split(" | ")[COLUMNS.index(channel)].replace(",", "")
    return int(text) if text.isdigit() else None


@pytest.mark.parametrize(("kind", "sealed", "figures"), ROW.findall(PAGE))
def test_what_the_page_says_fits_does_and_no_byte_more(kind: str, sealed: str, figures: str) -> None:
    make, channels = NETWORKS[kind]
    assert [channel for channel in COLUMNS if shown(channel, figures)] == [one for one in COLUMNS if one in channels]
    for channel in channels:
        most = shown(channel, figures) or 0
        assert is_whole(make(channel, most), sealed=bool(sealed))
        assert not is_whole(make(channel, most + 1), sealed=bool(sealed))


def test_the_page_has_all_four_rows() -> None:
    assert len(ROW.findall(PAGE)) == 4
