"""Neither a token nor what a server has sealed is anywhere but where it has to be.

Both are canaries: unmistakable texts, which are searched for in all that router and dispatch leave behind. That the search
would find them is shown by where they have to be: the token in its subscription, the content in the push queue.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest

from clarion.channels import Channel
from tests.ledger.end_to_end import EndToEnd, deployed_stages, dispatch_batch, loggers_to
from tests.ledger.zulip import known_server
from tests.match.scene import lake_events
from tests.zulip import CallingServer, ZulipDevice

TOKEN = "cafe0ca7a21e5" + "0" * 50 + "1"
CONTENT = b64encode(b"a canary sings, sealed" * 9).decode()
TOO_LARGE = CONTENT * 20
"""Refused, and so the more likely to be quoted."""
CANARIES = {"token": TOKEN, "content": CONTENT, "org key": "0rg-key-" * 8}


@dataclass
class Leftovers:
    """All that one way through router and dispatch has left behind. `tables` holds the texts of their items, by table."""

    queued: str = ""
    answers: list[str] = field(default_factory=list)
    log: str = ""
    lake: str = ""
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def stages() -> Iterator[EndToEnd]:
    with deployed_stages() as stages:
        yield stages


@pytest.fixture(scope="module")
def left(stages: EndToEnd) -> Leftovers:
    """Of a device that is registered and notified, and of requests that are refused."""
    server = known_server(stages)
    left = Leftovers()
    with redirect_stdout(stages.log), loggers_to(stages.log):
        left.answers = [json.dumps(reply) for reply in _requests(server)]

    def dispatched(records: list[dict[str, Any]]) -> list[dict[str, str]]:
        left.queued += "".join(record["body"] for record in records)
        return dispatch_batch(records)

    stages.invoke(server.worker.settings.push_queues[Channel.APNS], dispatched)
    left.log = stages.log.getvalue()
    left.lake = json.dumps(lake_events())
    left.tables = {name: _items(name) for name in boto3.client("dynamodb").list_tables()["TableNames"]}
    return left


def _requests(server: CallingServer) -> Iterator[Any]:
    device = ZulipDevice(TOKEN)
    yield server.register(device).json
    yield server.notify(device.push(CONTENT)).json
    yield server.notify(device.push(TOO_LARGE)).json
    yield server.notify(device.push(CONTENT, http_headers=CONTENT)).json
    yield server.register(device, token_id=CONTENT[:12]).json
    yield server.register(ZulipDevice(f"{TOKEN} is no token")).json
    yield server.register(device, sealed_at=1).json
    server.key = CANARIES["org key"]
    yield server.notify(device.push(CONTENT)).json


def _items(table: str) -> list[dict[str, Any]]:
    return boto3.client("dynamodb").scan(TableName=table)["Items"]


def found_in(text: str) -> set[str]:
    return {name for name, canary in CANARIES.items() if canary in text}


def test_the_push_queue_has_the_content_and_no_token(left: Leftovers) -> None:
    assert found_in(left.queued) == {"content"}


def test_the_token_is_in_its_subscription_and_in_no_other_place(left: Leftovers) -> None:
    holding = {
        (table, attribute)
        for table, items in left.tables.items()
        for item in items
        for attribute, value in item.items()
        if found_in(str(value))
    }
    assert {(table.rpartition("-")[2], attribute) for table, attribute in holding} == {("subscriptions", "token")}


def test_no_answer_no_line_of_a_log_and_no_event_has_any(left: Leftovers) -> None:
    assert len([answer for answer in left.answers if '"error"' in answer]) == 6
    assert "_aws" in left.log, "the metrics are there"
    assert '"push"' in left.lake
    assert '"subscription"' in left.lake
    for text in (*left.answers, left.log, left.lake):
        assert found_in(text) == set()
