"""What docs/zulip.md shows of the calls, against what is answered."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.zulip import PUBLIC, CallingServer, ZulipDevice, android, seal

PAGE = (Path(__file__).parents[4] / "docs" / "zulip.md").read_text()
ACCOUNT = 1234567890123456789


def shown(title: str) -> list[Any]:
    """The JSON below a heading, in the page's order."""
    section = PAGE.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    # What the page leaves out is base64.
    return [json.loads(block.replace("…", "AAAA")) for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]


@pytest.fixture
def iphone(server: CallingServer) -> ZulipDevice:
    device = ZulipDevice()
    server.register(device)
    return device


@pytest.mark.parametrize(("index", "name"), [(0, "token_id"), (1, "push_account_id")], ids=["shipped", "proposed"])
def test_a_device_is_registered_by_the_members_that_the_page_shows(
    server: CallingServer, index: int, name: str
) -> None:
    device = ZulipDevice()
    sealed = {
        "realm_uuid": str(server.realm),
        "encrypted_push_registration": seal(device.registration(server.clock.seconds)),
        "bouncer_public_key": PUBLIC,
    }
    asked = shown("Register a device")[index] | sealed
    asked |= {"token_id": device.token_id} if name == "token_id" else {}

    reply = server.post_json("/push/e2ee/register", asked)

    assert reply.status == 200
    assert ("device_id" in reply.json) == (name == "push_account_id")


def test_realms_are_reported_and_answered_as_the_page_shows(server: CallingServer) -> None:
    [asked] = re.findall(r"--data-urlencode 'realms=(.*)'", PAGE)
    [answered] = shown("Report realms")
    [shown_realm] = answered["realms"]
    realm = str(uuid4())

    reply = server.post_form("/server/analytics", {"realms": asked.replace(shown_realm, realm)})

    assert reply.json == answered | {"realms": {realm: answered["realms"][shown_realm]}}


def test_a_shipped_push_is_asked_for_and_answered_as_the_page_shows(server: CallingServer, iphone: ZulipDevice) -> None:
    asked, answered = shown("Push")[0], shown("Push")[2]
    unknown = android()
    pushes = [
        push | {"token_id": device.token_id}
        for push, device in zip(asked["push_requests"], (iphone, unknown), strict=True)
    ]

    reply = server.notify(*pushes)

    assert reply.json == answered | {"delete_token_ids": [unknown.token_id]}


def test_a_proposed_push_is_asked_for_and_answered_as_the_page_shows(server: CallingServer) -> None:
    asked, answered = shown("Push")[1], shown("Push")[3]
    known, unknown = server.register_account(ZulipDevice(), ACCOUNT), str(uuid4())
    pushes = [push | {"device_id": name} for push in asked["notifications"] for name in (known, unknown)]

    reply = server.notify_accounts(*pushes)

    assert reply.json == answered | {"errors": [answered["errors"][0] | {"device_id": unknown}]}


def test_what_has_ended_is_listed_as_the_page_shows(server: CallingServer, iphone: ZulipDevice) -> None:
    device_id = server.register_account(ZulipDevice(), ACCOUNT)
    for row in server.rows():
        server.kill(row)
    [answered] = shown("Which devices have ended")

    errors = [answered["errors"][0] | {"device_id": device_id}]
    assert server.expired().json == answered | {"delete_token_ids": [iphone.token_id], "errors": errors}
