"""What the client that wallets have was once answered, and what it is answered here: the same in kind."""

import json
from pathlib import Path
from typing import Any

import pytest

from clarion import base64url
from clarion.networks.walletconnect.relay import Publication
from tests.walletconnect_worker.stage import FIRST_TYPE, Stage, opened

CAPTURE = json.loads((Path(__file__).parents[1] / "data" / "walletconnect.json").read_text())["live_capture"]
ANSWERS = {one["tag"]: one for one in reversed(CAPTURE["publishes"]) if one["from"] == "server"}
"""The first of each tag."""


def kind(value: Any) -> Any:
    """Without what differs from one message to the next."""
    match value:
        case dict():
            return {name: kind(member) for name, member in value.items()}
        case [first, *_]:
            return [kind(first)]
        case []:
            return []
    return type(value).__name__


def published(stage: Stage) -> dict[int, tuple[Publication, dict[str, Any]]]:
    """What a wallet is sent that does what the captured one did, and the JSON-RPC in it."""
    phone = stage.phone()
    [watched] = stage.handle(phone.watch(app=None))
    [subscribed] = stage.handle(phone.subscribe())
    phone.sym_key = stage.row(phone).sym_key
    [message] = stage.handle(stage.notify(phone))
    found = {4011: (watched, phone.watch_key()), 4001: (subscribed, phone.response_key())}
    for command in (phone.update(FIRST_TYPE), phone.get(5), phone.mark(), phone.delete()):
        [answer] = stage.handle(command)
        found[answer.tag] = (answer, phone.sym_key)
    found[message.tag] = (message, phone.sym_key)
    return {tag: (one, opened(one, key)) for tag, (one, key) in found.items()}


def claims_in(content: dict[str, Any]) -> Any:
    [token] = (content.get("result") or content["params"]).values()
    return json.loads(base64url.decode(token.split(".")[1]))


def test_all_that_was_captured_is_compared(stage: Stage) -> None:
    assert published(stage).keys() == ANSWERS.keys()


@pytest.mark.parametrize("tag", ANSWERS)
def test_a_wallet_gets_what_it_is_used_to(stage: Stage, tag: int) -> None:
    expected, (sent, content) = ANSWERS[tag], published(stage)[tag]
    assert (sent.ttl, sent.prompt) == (expected["ttl"], expected["prompt"])
    assert kind(content) == kind(expected["decrypted"])
    assert kind(claims_in(content)) == kind(expected["claims"])
