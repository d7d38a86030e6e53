"""The batch: what fails comes again by itself, and at last goes among the dead letters."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest

from clarion.clock import now_ms
from clarion.command_queue import NO_COMMAND, retry_delay
from clarion.networks.walletconnect.buckets import KEY_SERVER_REQUESTS, take
from clarion.networks.walletconnect.commands import WalletConnectCommand
from clarion.sqs import REASON
from tests.walletconnect_worker.stage import (
    APP,
    FIRST_TYPE,
    OPTIONS,
    PREFIX,
    Clock,
    Stage,
    app_row,
    other_command,
    record_of,
)
from walletconnect import worker

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def queued(stage: Stage, command: WalletConnectCommand) -> dict[str, Any]:
    """It is on the queue, too."""
    sqs, url = boto3.client("sqs"), stage.queues["commands"]
    sqs.send_message(QueueUrl=url, MessageBody="it")
    [message] = sqs.receive_message(QueueUrl=url, VisibilityTimeout=360)["Messages"]
    return {**stage.record(command), "receiptHandle": message["ReceiptHandle"]}


def is_visible(stage: Stage) -> bool:
    return "Messages" in boto3.client("sqs").receive_message(QueueUrl=stage.queues["commands"])


def dead_letters(stage: Stage) -> list[tuple[str, str]]:
    """Body and reason."""
    answer = boto3.client("sqs").receive_message(
        QueueUrl=stage.queues["dead"], MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    return [(one["Body"], one["MessageAttributes"][REASON]["StringValue"]) for one in answer.get("Messages", [])]


@pytest.mark.parametrize(
    "body",
    ["", "{}", other_command(b"hourly"), other_command(b'{"kind": "relay"}'), '{"network": "xmtp", "content": "e30="}'],
)
def test_what_is_no_command_is_a_dead_letter(stage: Stage, body: str) -> None:
    assert stage.worker.handle([record_of(body, stage.clock)]) == []
    assert dead_letters(stage) == [(body, NO_COMMAND)]


def test_a_command_that_fails_keeps_no_other_from_being_handled(stage: Stage) -> None:
    phone = stage.subscribed()
    failing, serving = stage.record(stage.notify(phone)), stage.record(phone.update())
    stage.relay.failing = 1
    assert stage.worker.handle([failing, serving]) == [failing["messageId"]]
    assert [one.tag for one in stage.relay.published] == [4001, 4009]


def test_a_command_that_fails_at_its_last_attempt_is_a_dead_letter(stage: Stage) -> None:
    phone = stage.subscribed()
    record = stage.record(stage.notify(phone), receives=3)
    stage.relay.failing = 1
    assert stage.worker.handle([record]) == []
    assert dead_letters(stage) == [(record["body"], "NotSent: the relay does not take it")]


def test_a_key_server_that_does_not_answer_is_asked_again(stage: Stage) -> None:
    phone = stage.phone()
    record = stage.record(phone.subscribe())
    stage.key_servers.status = 503
    assert stage.worker.handle([record]) == [record["messageId"]]
    stage.key_servers.status = 200
    assert stage.worker.handle([record]) == []
    assert stage.row(phone).is_active


def test_nothing_is_begun_when_the_time_is_up(stage: Stage) -> None:
    record = queued(stage, stage.phone().subscribe())
    assert stage.worker.handle([record], until=0) == [record["messageId"]]
    assert stage.relay.published == []
    assert is_visible(stage), "what was not begun need not wait"


def test_what_fails_comes_again_later(stage: Stage) -> None:
    record = queued(stage, stage.phone().subscribe())
    stage.key_servers.status = 503
    assert stage.worker.handle([record]) == [record["messageId"]]
    assert not is_visible(stage)


@pytest.mark.parametrize(("receives", "seconds"), [(1, 5), (2, 10), (8, 640), (9, 900), (120, 900)])
def test_what_fails_again_comes_ever_later(receives: int, seconds: int) -> None:
    assert retry_delay(receives) == seconds


def test_what_dapps_ask_comes_before_what_wallets_ask(stage: Stage) -> None:
    phone = stage.subscribed()
    stage.worker.handle([stage.record(phone.update(FIRST_TYPE)), stage.record(stage.notify(phone))])
    assert [one.tag for one in stage.relay.published] == [4001, 4002, 4009]


def test_a_key_server_that_does_not_answer_is_asked_once_in_a_batch(stage: Stage) -> None:
    records = [stage.record(stage.phone(bytes([number]) * 32).subscribe()) for number in (1, 2, 3)]
    stage.key_servers.status = 503
    assert len(stage.worker.handle(records)) == 3
    assert len(stage.key_servers.requests) == 1
    stage.key_servers.status = 200
    assert stage.worker.handle(records) == []


def test_no_more_identity_keys_are_looked_up_than_the_bucket_has(stage: Stage) -> None:
    """Whatever was looked up before is still known, and what is refused comes again."""
    known, record = stage.subscribed(), stage.record(stage.phone(b"n" * 32).subscribe())
    assert take(KEY_SERVER_REQUESTS, "all", now_ms() + 60_000, KEY_SERVER_REQUESTS.most)
    assert stage.worker.handle([record, stage.record(known.update(FIRST_TYPE))]) == [record["messageId"]]
    assert len(stage.key_servers.requests) == 1


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@pytest.fixture
def deployed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    environment = {
        "NETWORK": "walletconnect",
        "TABLE_PREFIX": PREFIX,
        "EVENTS_STREAM": "lake",
        "LATE_EVENTS_QUEUE_URL": stage.queues["dead"],
        "ENVELOPES_QUEUE_URL": stage.queues["envelopes"],
        "QUEUE_URL": stage.queues["envelopes"],
        "DEAD_LETTER_URL": stage.queues["dead"],
        "MAX_RECEIVES": "8",
        "SECRETS": json.dumps({"walletconnect-server": "walletconnect-server"}),
        "OPTIONS": OPTIONS.model_dump_json(),
    }
    for name, value in environment.items():
        monkeypatch.setenv(f"CLARION_{name}", value)
    worker._worker.cache_clear()
    yield stage
    worker._worker.cache_clear()


def test_the_function_reports_what_is_to_come_again_and_counts_what_was_refused(
    deployed: Stage, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The topic is nobody's, so neither relay nor key server is asked."""
    phone = deployed.phone(sym_key=b"k" * 32)
    records = [deployed.record(phone.update()), record_of("{}", clock)]
    answer = worker.handler({"Records": records}, cast("LambdaContext", Context()))
    assert answer == {"batchItemFailures": []}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["requests_refused"] for line in lines if "requests_refused" in line] == [[1.0]]


def test_a_request_for_an_app_that_is_not_to_be_seen_yet_comes_again(stage: Stage) -> None:
    """Its row and its topic's are written together, but read one by one."""
    phone = stage.phone()
    record = stage.record(phone.subscribe())
    row = app_row(APP)
    row.delete()
    assert stage.worker.handle([record]) == [record["messageId"]]
    row.save()
    assert stage.worker.handle([record]) == []
    assert stage.row(phone).is_active
