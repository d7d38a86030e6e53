"""docs/zulip.md, against the calls, errors, limits and payloads that there are."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.networks.zulip.call_rate import CALLS_PER_MINUTE, COSTS, EXPIRED
from api.networks.zulip.errors import ZulipCode
from api.networks.zulip.pushes import MOST_PUSHES
from api.networks.zulip.router import PUBLIC_CALLS, SERVER_CALLS
from api.networks.zulip.servers import OF_ADDRESS, OF_ALL
from api.networks.zulip.settings import ZulipSettings
from api.networks.zulip.token_ids import number_of
from api.networks.zulip.token_space import MOST_DEVICES, MOST_OF_SERVER
from clarion.channels import Channel
from clarion.networks.zulip import open_registration
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.payload import ApnsBody, Aps, Body, FcmBody, ProposedContent, ShippedContent, fits
from clarion.networks.zulip.registration import MAX_TOKEN, token_id_of
from infra.options import PerAddress

PAGE = (Path(__file__).parents[2] / "docs" / "zulip.md").read_text()
MOST_KEY_ID, MOST_ACCOUNT_ID = (1 << 32) - 1, -(1 << 63)
"""The longest in decimal."""


def section(title: str) -> str:
    return PAGE.partition(f"\n{title}\n")[2].partition("\n## ")[0].partition("\n### ")[0]


def rows(title: str) -> list[list[str]]:
    lines = re.findall(r"^\| (.+) \|$", section(title), re.MULTILINE)
    return [line.split(" | ") for line in lines]


def number(text: str) -> int:
    return int(text.partition(" ")[0].rstrip(",").replace(",", ""))


def test_every_call_is_named() -> None:
    named = [
        (method, path)
        for row in rows("## The calls")
        for method in re.findall(r"`(GET|POST) ", row[0])
        for path in re.findall(r"(/[\w/]+)`", row[0])
    ]
    assert sorted(named) == sorted([*SERVER_CALLS, *PUBLIC_CALLS])


def test_every_error_is_explained_with_its_status() -> None:
    shown = [(row[0].strip("`"), int(row[1])) for row in rows("## Errors") if row[0].startswith("`")]
    assert shown == [(code.name, int(code.status)) for code in ZulipCode]


def test_the_limits_are_those_of_a_deployment_that_sets_none() -> None:
    defaults = {name: field.default for name, field in ZulipSettings.model_fields.items()}
    shown = [number(row[1]) for row in rows("## Limits") if row[1][0].isdigit()][:12]
    assert shown == [
        defaults["devices_per_server"],
        defaults["pushes_per_minute"],
        defaults["pushes_per_token_per_minute"],
        MOST_DEVICES,
        MOST_OF_SERVER,
        CALLS_PER_MINUTE,
        CALLS_PER_MINUTE // COSTS[EXPIRED],
        MOST_PUSHES,
        defaults["body_bytes"],
        defaults["realms_per_server"],
        PerAddress.model_fields["server_requests_per_minute"].default,
        OF_ALL.limit,
    ]
    assert f"and {OF_ADDRESS.limit} an hour from one network address" in section("## Limits")


def shipped(sealed: str) -> ShippedContent:
    return ShippedContent(push_key_id=MOST_KEY_ID, encrypted_data=sealed)


def proposed(sealed: str) -> ProposedContent:
    return ProposedContent(push_account_id=MOST_ACCOUNT_ID, encrypted_content=sealed)


def silent(sealed: str) -> ApnsBody:
    return ApnsBody(content=shipped(sealed), aps=Aps(mutable_content=1), push_type="background", priority=5)


MAKE: dict[tuple[str, int], tuple[Channel, Callable[[str], Body]]] = {
    ("`encrypted_data`", 1): (Channel.APNS, lambda sealed: ApnsBody(content=shipped(sealed))),
    ("`encrypted_data`", 2): (Channel.APNS, silent),
    ("`encrypted_data`", 3): (Channel.FCM, lambda sealed: FcmBody(content=shipped(sealed))),
    ("`encrypted_content`", 1): (Channel.APNS, lambda sealed: ApnsBody(content=proposed(sealed))),
    ("`encrypted_content`", 3): (Channel.FCM, lambda sealed: FcmBody(content=proposed(sealed))),
}


@pytest.mark.parametrize(("name", "column"), MAKE)
def test_so_much_base64_fits_and_no_group_of_four_more(name: str, column: int) -> None:
    [row] = [row for row in rows("## Limits") if row[0].startswith(name)]
    most = number(row[column])
    channel, make = MAKE[name, column]
    assert fits(channel, make("A" * most))
    assert not fits(channel, make("A" * (most + 4)))


def test_the_token_ids_of_the_page_are_such() -> None:
    ids = set(re.findall(r'"token_id": "([^"]+)"', PAGE))
    assert len(ids) == 2
    assert all(isinstance(number_of(one), int) for one in ids)


@pytest.mark.parametrize("ios_app_id", ["org.example.Chat", None])
def test_what_the_example_seals_is_opened(ios_app_id: str | None) -> None:
    [shown] = re.findall(r"```python\n(import json.*?)```", PAGE, re.DOTALL)
    defined: dict[str, Any] = {}
    exec(shown, defined)  # noqa: S102 - the page's own example
    keys, token = BouncerKeys().rotated(0), "c0ffee"

    sealed = defined["seal"](keys.keys[0].public, token, ios_app_id)
    for token_id in (token_id_of(token), None):
        opened = open_registration(sealed, keys.keys[0].public, keys.opening, token_id=token_id, now=int(time.time()))
        assert (opened.token, opened.ios_app_id) == (token, ios_app_id)


def test_a_token_may_be_as_long_as_the_page_says() -> None:
    assert f"of 1 to {MAX_TOKEN:,} characters" in PAGE
