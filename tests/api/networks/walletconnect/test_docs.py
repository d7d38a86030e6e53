"""What docs/walletconnect.md shows of the calls, against what is answered."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dapps import OTHER_TYPE, TYPE, Dapp, subscribe

PAGE = (Path(__file__).parents[4] / "docs" / "walletconnect.md").read_text()

COMMAND = re.compile(r"^curl [^`]*?\"\$NOTIFY/[^`]*?\"$", re.MULTILINE)


def shown(title: str) -> list[Any]:
    """The JSON below a heading, in the page's order."""
    section = PAGE.partition(f"\n### {title}\n")[2].partition("\n#")[0]
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", section, re.DOTALL)]


@pytest.fixture
def subscribed(dapp: Dapp) -> Dapp:
    """As the page's accounts have: one to the type, one to another, one to nothing."""
    taking, other, _ = shown("Notify")[0]["accounts"]
    subscribe(dapp.domain, taking)
    subscribe(dapp.domain, other, scope={OTHER_TYPE})
    return dapp


@pytest.mark.parametrize("command", COMMAND.findall(PAGE))
def test_each_command_is_taken(subscribed: Dapp, command: str) -> None:
    *words, url = shlex.split(command)
    data = words[words.index("-d") + 1]
    files = {"@notification.json": shown("Notify")[0], "@welcome.json": shown("Welcome")[0]}
    body = files.get(data) or json.loads(data)
    if "appDomain" in body:
        body["appDomain"] = subscribed.domain
    path = url.removeprefix("$NOTIFY").replace("$PROJECT", "{project}")
    assert subscribed.send("POST", path, body).status in {200, 204}


def test_there_is_a_command_for_each_call_that_has_a_body() -> None:
    assert len(COMMAND.findall(PAGE)) == 4


def test_a_domain_is_claimed_as_the_page_shows(new_dapp: Callable[..., Dapp]) -> None:
    (asked,) = re.findall(r"-d '(\{.*?\})' \"\$NOTIFY/\$PROJECT/subscribe-topic\"", PAGE)
    reply = new_dapp().send("POST", "/{project}/subscribe-topic", json.loads(asked))
    assert {name: len(key) for name, key in reply.json.items()} == {
        name: len(key) for name, key in shown("Claim a domain")[0].items()
    }


def test_a_notification_is_answered_as_the_page_shows(subscribed: Dapp) -> None:
    asked, answered = shown("Notify")
    assert asked["notification"]["type"] == TYPE
    assert subscribed.send("POST", "/{project}/notify", asked).json == answered
    assert subscribed.send("POST", "/v1/{project}/notify", [asked]).json == answered


def test_subscribers_are_shown_as_the_page_shows(subscribed: Dapp) -> None:
    (answered,) = shown("Subscribers")
    reply = subscribed.send("POST", "/v1/{project}/subscribers", {"accounts": list(answered)})
    assert reply.json == answered


def test_a_welcome_notification_is_set_as_the_page_shows(dapp: Dapp) -> None:
    (asked,) = shown("Welcome")
    assert dapp.send("POST", "/v0/{project}/welcome-notification", asked).status == 204
    assert dapp.send("GET", "/v0/{project}/welcome-notification").json == asked
