"""No secret of SimpleX is anywhere in the clear, and a device's token is nowhere but where it has to be.

All are canaries, which are searched for in what commands, match and dispatch leave behind: raw, in hex and in base64. That
the search would find them is shown by where they have to be: the token in its rows, and in each push's payload, once
it is opened, the code and the messages.
"""

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3
import pytest

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.messages import PushMessage
from clarion.networks import SIMPLEX
from clarion.networks.simplex.envelope import encode
from clarion.networks.simplex.items import MessageArrived
from ingest.delivery.outgoing import Outgoing
from tests.events import KeptEvents
from tests.ledger.end_to_end import STORAGE_TEXT, EndToEnd, deployed_stages, dispatch_batch, loggers_to
from tests.ledger.simplex import await_messages
from tests.match.scene import PREFIX, lake_events
from tests.simplex import SECRET, Agent, Clock, Stage, deploy, queue

DEVICE = b"cafe0ca7a21e5" + b"0" * 50 + b"1"
NOTIFIER_KEY = b"a notifier's key of thirty-two b"


@dataclass
class Traces:
    """All that one way through has left behind. `tables` holds each row's attributes as text, by table."""

    canaries: dict[str, bytes] = field(default_factory=dict)
    opened: list[dict[str, bytes]] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    queued: str = ""
    log: str = ""
    lake: str = ""
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def found_in(self, text: str | bytes) -> set[str]:
        raw = text.encode() if isinstance(text, str) else text
        return {name for name, canary in self.canaries.items() if any(form in raw for form in _forms(canary))}


def _forms(canary: bytes) -> Iterator[bytes]:
    """As it may be written. Base64 of three places that it may begin at, without the digits that others share."""
    yield canary
    yield canary.hex().encode()
    yield repr(canary)[2:-1].encode()
    for lead in range(3):
        digits = slice(-(-8 * lead // 6), (lead + len(canary)) * 8 // 6)
        yield b64encode(bytes(lead) + canary)[digits]
        yield urlsafe_b64encode(bytes(lead) + canary)[digits]


@pytest.fixture(scope="module")
def stages() -> Iterator[EndToEnd]:
    with deployed_stages() as stages:
        yield stages


@dataclass
class Walk:
    stages: EndToEnd
    stage: Stage
    traces: Traces

    def pushes(self, count: int) -> list[PushMessage]:
        """Have them dispatched, from their queue."""
        url, bodies = self.stages.settings.push_queues[Channel.APNS], list[str]()
        await_messages(url, count)

        def dispatched(records: list[dict[str, Any]]) -> list[dict[str, str]]:
            bodies.extend(record["body"] for record in records)
            return dispatch_batch(records)

        self.stages.invoke(url, dispatched)
        self.traces.queued += "".join(bodies)
        return [PushMessage.model_validate_json(body) for body in bodies]

    def arrive(self, number: int) -> None:
        raw = encode(queue(number), now_ms() // 1000, MessageArrived(b"n" * 24, b"m" * 144))
        message = Outgoing(network=SIMPLEX, receipt=uuid4(), observed_at=now_ms(), fingerprint=0, raw=raw)
        self.stages.ingest([message])
        self.stages.invoke(self.stages.settings.queue_url, self.stages.worker.handle)

    def carry_out(self) -> None:
        orders = self.stage.drain("commands")
        self.traces.queued += "".join(orders)

    def register(self) -> Agent:
        """Until it is verified, with a queue; a few commands are refused."""
        agent = self.stage.agent(device=DEVICE)
        self.traces.answers.append(agent.register())
        [push] = self.pushes(1)
        code = agent.opened(push)["verification"]
        self.traces.opened.append({"verification": code})
        self.traces.canaries = {"token": DEVICE, "agreed": agent.secret, "code": code, "notifier": NOTIFIER_KEY}
        self.traces.canaries["storage key"] = SECRET.encode()
        self.traces.answers += [agent.verify(b"x" * 32), agent.verify(code)]
        key = int.from_bytes(NOTIFIER_KEY)
        self.traces.answers += [agent.subscribe(1, key=key), agent.subscribe(1, key=1), agent.replace(b"no token")]
        return agent


@pytest.fixture(scope="module")
def left(stages: EndToEnd) -> Traces:
    clock, traces = Clock(), Traces()
    clock.now = now_ms()
    deploy(PREFIX)
    walk = Walk(stages, Stage.make(clock, KeptEvents(), PREFIX), traces)
    with redirect_stdout(stages.log), loggers_to(stages.log):
        agent = walk.register()
        walk.carry_out()
        walk.arrive(1)
        [push] = walk.pushes(1)
        traces.opened.append({"pushed": str(push.number).encode()})
        traces.answers += [agent.status(), agent.wake_up(20)]
        traces.tables = {name: _rows(name) for name in boto3.client("dynamodb").list_tables()["TableNames"]}
        traces.answers.append(agent.ask(b"TDEL", agent.token_id))
        walk.arrive(1)
        walk.carry_out()
    traces.log = stages.log.getvalue()
    traces.lake = json.dumps(lake_events())
    return traces


def _rows(table: str) -> list[dict[str, Any]]:
    return boto3.client("dynamodb").scan(TableName=table)["Items"]


def test_the_storage_key_is_the_one_that_dispatch_reads() -> None:
    assert SECRET == STORAGE_TEXT


def test_the_code_reached_the_device_encrypted(left: Traces) -> None:
    assert left.opened[0]["verification"] == left.canaries["code"]
    assert left.answers[2] == b"OK"


@pytest.mark.parametrize("form", range(9))
def test_each_form_of_a_canary_would_be_found(left: Traces, form: int) -> None:
    for name, canary in left.canaries.items():
        assert name in left.found_in(b"xy" + list(_forms(canary))[form] + b"z")


def test_a_token_is_in_its_rows_and_nothing_else_is_in_any(left: Traces) -> None:
    holding = {
        (table.rpartition("-")[2], attribute, name)
        for table, rows in left.tables.items()
        for row in rows
        for attribute, value in row.items()
        for name in left.found_in(_bytes(value))
    }
    assert holding == {("simplex_tokens", "token", "token"), ("subscriptions", "token", "token")}


def test_no_message_in_a_queue_no_line_of_a_log_and_no_event_has_any(left: Traces) -> None:
    assert "_aws" in left.log, "the metrics are there"
    assert '"push"' in left.lake
    assert '"purpose"' in left.queued
    for text in (left.queued, left.log, left.lake):
        assert left.found_in(text) == set()


def test_no_answer_has_any(left: Traces) -> None:
    assert b"ERR AUTH" in left.answers
    for answer in left.answers:
        assert left.found_in(answer) == set()


def _bytes(value: Any) -> bytes:
    """Of an attribute with its type."""
    [content] = value.values()
    return bytes(content) if isinstance(content, bytes) else str(content).encode()
