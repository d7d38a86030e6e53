"""The Lambda behind the queue of XMTP's commands."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, cast

import boto3
import pytest
from botocore.exceptions import ClientError

from clarion.channels import Channel
from clarion.clock import now_ms
from clarion.messages import CommandMessage
from clarion.networks import XMTP
from clarion.networks.needs import HOURLY
from clarion.networks.xmtp.installations import Installation, bucket_of
from clarion.networks.xmtp.sender_hmac import period_at
from tests.match.scene import received
from tests.xmtp_worker.conftest import Account, Clock
from xmtp import worker

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

TICK = CommandMessage(network=XMTP, content=HOURLY).to_json()


class Context:
    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return self._seconds * 1000


@pytest.fixture
def clock() -> Clock:
    """Begins with the machine's, which is the worker's."""
    clock = Clock()
    clock.now = now_ms()
    return clock


@pytest.fixture
def deployed(account: Account, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    environment = {
        "NETWORK": XMTP,
        "TABLE_PREFIX": "",
        "EVENTS_STREAM": "lake",
        "LATE_EVENTS_QUEUE_URL": "late-events",
        "PUSH_QUEUES": json.dumps({channel: account.queues[channel] for channel in Channel}),
        "CLEANUP_QUEUE_URL": account.queues["cleanup"],
        "QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/123456789012/commands",
        "DEAD_LETTER_URL": account.queues["dead"],
        "MAX_RECEIVES": "8",
    }
    for name, value in environment.items():
        monkeypatch.setenv(f"CLARION_{name}", value)
    _forget()
    yield account
    _forget()


def _forget() -> None:
    for kept in (worker._settings, worker._hourly):
        kept.cache_clear()


def invoke(*bodies: str, seconds: int = 900) -> list[str]:
    """Returns the ids of the messages that come again."""
    event = {"Records": [received(str(number), body) for number, body in enumerate(bodies)]}
    answer = worker.handler(event, cast("LambdaContext", Context(seconds)))
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    return {name: value for line in lines for name, value in line.items()}


def test_a_command_has_all_done_that_is_due(
    deployed: Account, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.install("phone", newest=period_at(clock.seconds) - 1)
    assert invoke(TICK) == []
    found = metrics(capsys)
    assert len(deployed.pushes()) == 1
    assert (found["service"], found["refreshes_sent"], found["installations_failed"]) == (XMTP, [1], [0])


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        CommandMessage(network=XMTP, content=b"daily").to_json(),
        CommandMessage(network="statements", content=HOURLY).to_json(),
    ],
)
def test_what_is_no_command_of_its_own_is_dead_lettered(deployed: Account, body: str) -> None:
    assert invoke(body) == []
    assert deployed.drain("dead") == [body]


def test_what_there_was_no_time_for_comes_again(deployed: Account, clock: Clock) -> None:
    row = deployed.install("phone")
    clock.advance(-31 * 86_400)
    deployed.renew("phone")
    assert invoke(TICK, seconds=5) == ["0"]
    assert deployed.installation(row)
    assert invoke(TICK) == []
    assert deployed.installation(row) is None


def test_trouble_at_aws_brings_the_command_again(deployed: Account) -> None:
    Installation.delete_table()
    assert invoke(TICK) == ["0"]


def test_what_was_done_and_lost_before_trouble_at_aws_is_recorded(
    deployed: Account,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = next(name for name in map(str, count()) if bucket_of(name) == 0)
    clock.advance(-31 * 86_400)
    deployed.install("old")
    deployed.install(next(name for name in map(str, count()) if bucket_of(name) > bucket_of("old")))
    clock.now = now_ms()
    deployed.install(first, newest=period_at(clock.seconds) - 1)
    boto3.client("firehose").delete_delivery_stream(DeliveryStreamName="lake")
    monkeypatch.setattr(Installation, "batch_get", twice(Installation.batch_get))
    assert invoke(TICK) == ["0"]
    found = metrics(capsys)
    assert (found["installations_ended"], found["refreshes_sent"], found["events_lost"]) == ([1], [1], [1])
    [logged] = [vars(record) for record in caplog.records if record.levelname == "ERROR"]
    assert (logged["error"], logged["exc_info"]) == ("ThrottlingException from UpdateItem", None)


def twice(call: Callable[..., Any]) -> Callable[..., Any]:
    """As `call`, and refused from the third time on."""
    calls = iter([call] * 2)

    def called(*args: object, **options: object) -> object:
        return next(calls, refused)(*args, **options)

    return called


def refused(*_: object, **__: object) -> NoReturn:
    raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "it quotes a row"}}, "UpdateItem")
