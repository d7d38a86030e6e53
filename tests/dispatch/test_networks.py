"""Dispatch and any network: what one of them does concerns nobody else's pushes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, override

import boto3
import pytest
from botocore.exceptions import ClientError
from pydantic import ValidationError
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.decisions import PushDecision
from clarion.messages import PushMessage
from clarion.networks import network
from clarion.tables import BATCH_GET_ITEMS, Subscription
from local.apns_trouble import troubled_token
from local.provider import InjectedFault
from tests.toy import LATEST, MOST_TEXTS, ToyBody

type Register = Callable[..., Subscription]
type Write = Callable[..., PushMessage]

BODY = ToyBody(room="hall", text="hello")


def toys(write: Write, row: Subscription) -> PushMessage:
    return write(row, network="toy", body=BODY)


def fail(*_: object) -> None:
    raise ZeroDivisionError


def given_up(lake: Any) -> list[bool]:
    """What is said of each push that was refused."""
    return [event["given_up"] for event in lake.events if "given_up" in event]


def test_a_network_whose_payload_fails_loses_its_own_push_alone(
    toy: str,
    worker: Any,
    queue: Any,
    lake: Any,
    register: Register,
    message: Write,
    apns: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(network(toy)), "payload", fail)
    queue.put(toys(message, register(Channel.APNS, "a1" * 32, network=toy)))
    queue.put(message(register(Channel.APNS, "b2" * 32)))

    report = worker.work()

    assert report.decisions == {PushDecision.REFUSED: 1, PushDecision.DELIVERED: 1}
    assert [push.token for push in apns.received] == ["b2" * 32]
    assert (len(queue), len(queue.dead)) == (0, 1)
    assert given_up(lake) == [True]


def test_an_outcome_that_concerns_a_network_is_a_command_for_it(
    toy: str, worker: Any, queue: Any, register: Register, message: Write
) -> None:
    gone = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")), network=toy)
    queue.put(toys(message, gone))

    worker.work()

    assert [(one.network, one.content) for one in queue.commands] == [(toy, b"gone:" + gone.subscription_id.encode())]
    assert Subscription.get(gone.subscription_id).status == "invalid"
    assert len(queue) == 0


def test_a_subscription_ends_only_once_its_networks_command_is_sent(
    toy: str, worker: Any, queue: Any, clock: Any, register: Register, message: Write
) -> None:
    gone = register(Channel.APNS, troubled_token(InjectedFault("Unregistered")), network=toy)
    queue.put(toys(message, gone))
    queue.takes_commands = False

    worker.work()
    assert (len(queue), Subscription.get(gone.subscription_id).status) == (1, "active")

    queue.takes_commands = True
    clock.advance(600)
    worker.work()
    assert len(queue.commands) == 1
    assert (len(queue), Subscription.get(gone.subscription_id).status) == (0, "invalid")


def test_a_push_that_is_given_up_is_an_outcome_as_well(
    toy: str, worker: Any, queue: Any, register: Register, message: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused only when it is not tried again."""
    outcomes: list[PushDecision] = []
    monkeypatch.setattr(
        type(network(toy)), "on_outcome", lambda _self, _push, outcome, _reason: outcomes.append(outcome)
    )
    worker.dispatcher = replace(worker.dispatcher, max_receives=1)
    queue.put(toys(message, register(Channel.APNS, troubled_token(InjectedFault("ServiceUnavailable")), network=toy)))

    worker.work()

    assert outcomes == [PushDecision.REFUSED]


def test_a_network_without_a_queue_of_commands_keeps_its_own_message_alone(
    toy: str, worker: Any, queue: Any, register: Register, message: Write, apns: Any
) -> None:
    worker.dispatcher.command_queues.clear()
    queue.put(toys(message, register(Channel.APNS, troubled_token(InjectedFault("Unregistered")), network=toy)))
    queue.put(message(register(Channel.APNS, "b2" * 32)))

    worker.work()

    assert len(queue) == 1
    assert [push.token for push in apns.received if push.accepted] == ["b2" * 32]


class Latest:
    """The toy network's table of what was said last, by subscription."""

    def __init__(self) -> None:
        boto3.client("dynamodb").create_table(
            TableName=LATEST,
            KeySchema=[{"AttributeName": "subscription_id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "subscription_id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self._table = boto3.resource("dynamodb").Table(LATEST)

    def write(self, row: Subscription, *texts: str) -> None:
        self._table.put_item(Item={"subscription_id": row.subscription_id, "room": "hall", "texts": list(texts)})


@pytest.fixture
def latest(aws: None) -> Latest:
    return Latest()


class Requests(Connection):
    """Counts reads of the table, and answers `fails` of them with an error, `withheld` of them without the rows."""

    fails = withheld = reads = 0

    @override
    def dispatch(self, operation_name: str, operation_kwargs: dict[str, Any]) -> Any:
        if LATEST not in operation_kwargs.get("RequestItems", {}):
            return super().dispatch(operation_name, operation_kwargs)
        self.reads += 1
        if self.reads <= self.fails:
            raise ClientError({"Error": {"Code": "InternalServerError"}}, operation_name)
        if self.reads <= self.withheld:
            return {"Responses": {}, "UnprocessedKeys": operation_kwargs["RequestItems"]}
        return super().dispatch(operation_name, operation_kwargs)


@pytest.fixture
def requests(worker: Any) -> Requests:
    requests = Requests()
    worker.dispatcher = replace(worker.dispatcher, connection=requests)
    return requests


def without_body(write: Write, row: Subscription) -> PushMessage:
    return write(row, network="toy", body=None)


def joined(*texts: str) -> str:
    return "\n".join(texts)


def texts_of(apns: Any) -> list[str]:
    """What the toy network's pushes hold that were accepted."""
    payloads = [push.payload for push in apns.received if push.accepted]
    return [payload["text"] for payload in payloads if "text" in payload]


def test_a_push_without_a_body_has_what_its_network_s_row_holds_when_it_is_sent(
    toy: str, worker: Any, queue: Any, register: Register, message: Write, apns: Any, latest: Latest
) -> None:
    row = register(Channel.APNS, "a1" * 32, network=toy)
    latest.write(row, "hello")
    queue.put(without_body(message, row))
    texts = [f"text {number}" for number in range(MOST_TEXTS + 1)]
    latest.write(row, *texts)

    report = worker.work()

    assert report.decisions == {PushDecision.DELIVERED: 1}
    assert texts_of(apns) == [joined(*texts[1:])]


def test_one_request_reads_the_rows_of_a_batch(
    toy: str,
    worker: Any,
    queue: Any,
    register: Register,
    message: Write,
    apns: Any,
    latest: Latest,
    requests: Requests,
) -> None:
    one, other = (register(Channel.APNS, token * 32, network=toy) for token in ("a1", "b2"))
    latest.write(one, "of one")
    latest.write(other, "of the other")
    queue.put(without_body(message, one), without_body(message, other), without_body(message, other))
    queue.put(toys(message, one), message(register(Channel.APNS, "c3" * 32)))

    report = worker.work()

    assert report.decisions == {PushDecision.DELIVERED: 5}
    assert sorted(texts_of(apns)) == sorted(
        [joined("of one"), joined("of the other"), joined("of the other"), joined("hello")]
    )
    assert requests.reads == 1


def test_more_rows_than_one_request_may_ask_for_take_another(
    toy: str, worker: Any, queue: Any, register: Register, message: Write, latest: Latest, requests: Requests
) -> None:
    for number in range(BATCH_GET_ITEMS + 1):
        row = register(Channel.APNS, f"{number:064x}", network=toy)
        latest.write(row, "hello")
        queue.put(without_body(message, row))

    assert worker.work().decisions == {PushDecision.DELIVERED: BATCH_GET_ITEMS + 1}
    assert requests.reads == 2


@pytest.mark.parametrize("texts", [None, ()], ids=["no row", "an empty one"])
def test_a_push_for_which_there_is_nothing_to_send_is_stale(
    toy: str,
    worker: Any,
    queue: Any,
    lake: Any,
    register: Register,
    message: Write,
    apns: Any,
    latest: Latest,
    texts: tuple[str, ...] | None,
) -> None:
    row = register(Channel.APNS, "a1" * 32, network=toy)
    if texts is not None:
        latest.write(row, *texts)
    queue.put(without_body(message, row))

    report = worker.work()

    assert report.decisions == {PushDecision.STALE: 1}
    assert [(event["decision"], event["reason"]) for event in lake.events] == [("stale", "nothing to send")]
    assert (len(apns.received), len(queue), len(queue.dead)) == (0, 0, 0)


@pytest.mark.parametrize("trouble", ["fails", "withheld"])
def test_a_row_that_could_not_be_read_is_read_again_later_and_holds_up_nobody_else(
    toy: str,
    worker: Any,
    queue: Any,
    clock: Any,
    register: Register,
    message: Write,
    apns: Any,
    latest: Latest,
    requests: Requests,
    trouble: str,
) -> None:
    setattr(requests, trouble, 1)
    row = register(Channel.APNS, "a1" * 32, network=toy)
    latest.write(row, "hello")
    queue.put(without_body(message, row), message(register(Channel.APNS, "b2" * 32)))

    assert worker.work().decisions == {PushDecision.RETRY: 1, PushDecision.DELIVERED: 1}
    latest.write(row, "hello", "again")
    clock.advance(600)
    assert worker.work().decisions == {PushDecision.DELIVERED: 1}
    assert texts_of(apns) == [joined("hello", "again")]


def test_a_push_that_is_retried_has_what_the_row_holds_by_then(
    toy: str, worker: Any, queue: Any, clock: Any, register: Register, message: Write, apns: Any, latest: Latest
) -> None:
    row = register(Channel.APNS, "a1" * 32, network=toy)
    latest.write(row, "hello")
    queue.put(without_body(message, row))
    apns.down_until = clock() + 60

    assert worker.work().decisions == {PushDecision.RETRY: 1}
    latest.write(row, "hello", "again")
    clock.advance(600)
    worker.work()

    assert texts_of(apns) == [joined("hello", "again")]


def test_a_row_that_its_network_fails_on_loses_its_own_push_alone(
    toy: str,
    worker: Any,
    queue: Any,
    lake: Any,
    register: Register,
    message: Write,
    latest: Latest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(network(toy)), "body_of_row", fail)
    row = register(Channel.APNS, "a1" * 32, network=toy)
    latest.write(row, "hello")
    queue.put(without_body(message, row), message(register(Channel.APNS, "b2" * 32)))

    assert worker.work().decisions == {PushDecision.REFUSED: 1, PushDecision.DELIVERED: 1}
    assert (len(queue), len(queue.dead)) == (0, 1)
    assert given_up(lake) == [True]


def test_only_a_network_with_a_table_for_it_sends_pushes_without_a_body(
    toy: str, register: Register, message: Write
) -> None:
    row = register(Channel.APNS, "a1" * 32)
    assert "body" not in without_body(message, row).to_json()
    with pytest.raises(ValidationError):
        message(row, body=None)
