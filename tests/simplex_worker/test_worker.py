"""The batch: what fails comes again by itself, what there is no time for at once, and each goes on where it stopped."""

import json
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.model import OperationModel

from clarion.command_queue import NO_COMMAND, OutOfTimeError
from clarion.networks import SIMPLEX
from clarion.networks.simplex.bounds import QUEUES_OF_TOKEN
from clarion.networks.simplex.commands import SimplexCommand, TokenDeleted, TokenReplaced, TokenRevived, message_of
from clarion.networks.simplex.queues import FollowedQueue, bucket_of, ending
from clarion.networks.simplex.rules import queue_key
from clarion.sqs import REASON
from simplex import token_queues, worker
from simplex.worker import SimplexWorker, SimplexWorkerSettings
from tests.match.scene import received
from tests.ntf_commands.test_tokens import OTHER_DEVICE, died
from tests.simplex import OPTIONS, Agent, Stage, queue

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from pynamodb.connection import Connection

MAX_RECEIVES = 3


@pytest.fixture
def handling(stage: Stage) -> SimplexWorker:
    made = SimplexWorkerSettings.model_validate(settings(stage))
    return SimplexWorker(
        token_commands=stage.token_commands,
        events=stage.token_commands.rules.events,
        queue=made.command_queue(stage.sqs),
        stage="test",
    )


def settings(stage: Stage) -> dict[str, str]:
    dead = stage.sqs.create_queue(QueueName="dead")["QueueUrl"]
    return {
        "network": SIMPLEX,
        "table_prefix": "",
        "events_stream": "lake",
        "late_events_queue_url": dead,
        "queue_url": stage.commands.store.command_queue_url,
        "dead_letter_url": dead,
        "max_receives": str(MAX_RECEIVES),
        "options": OPTIONS.model_dump_json(),
    }


def record(command: SimplexCommand | str, receives: int = 1) -> dict[str, Any]:
    body = command if isinstance(command, str) else message_of(command).to_json()
    return received(body, body, receives=receives)


def dead_letters(stage: Stage) -> list[str]:
    """Why."""
    url = stage.sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    found = stage.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
    return [one["MessageAttributes"][REASON]["StringValue"] for one in found.get("Messages", [])]


def with_queues(stage: Stage, count: int) -> Agent:
    """As many as `SNEW` has made, without their rules."""
    agent = stage.agent().activate()
    with FollowedQueue.batch_write() as batch:
        for number in range(count):
            followed = queue(number)
            row = FollowedQueue(
                queue_key(followed),
                queue=followed.encoded,
                notifier_key=b"sealed",
                token_id=agent.token_id.hex(),
                owner_key=b"owner",
                status="ACTIVE",
                bucket=bucket_of(followed.server),
                changed_at=stage.clock(),
            )
            batch.save(row)
    return agent


@pytest.mark.parametrize("body", ["", "{}", '{"network": "xmtp", "content": "e30="}'])
def test_what_is_no_command_is_a_dead_letter(stage: Stage, handling: SimplexWorker, body: str) -> None:
    assert handling.handle([record(body)], stage.clock()) == []
    assert dead_letters(stage) == [NO_COMMAND]


def test_what_comes_too_early_comes_again_and_keeps_no_other_from_being_handled(
    stage: Stage, handling: SimplexWorker
) -> None:
    agent = with_queues(stage, 1)
    died(stage, agent)
    early = record(TokenRevived(token_id=agent.token_id.hex()))
    gone = stage.agent(b"gone", OTHER_DEVICE).activate()
    gone.subscribe(7)
    gone.ask(b"TDEL", gone.token_id)
    assert handling.handle([early, record(TokenDeleted(token_id=gone.token_id.hex()))], stage.clock()) == [
        early["messageId"]
    ]
    assert [row.ended for row in stage.queues() if row.token_id == gone.token_id.hex()] == [True]


def test_what_fails_at_its_last_attempt_is_a_dead_letter(stage: Stage, handling: SimplexWorker) -> None:
    agent = with_queues(stage, 1)
    died(stage, agent)
    early = record(TokenRevived(token_id=agent.token_id.hex()), MAX_RECEIVES)
    assert handling.handle([early], stage.clock()) == []
    assert dead_letters(stage) == ["TooEarlyError: the token is not active"]


def test_nothing_is_begun_when_the_time_is_up(stage: Stage, handling: SimplexWorker) -> None:
    agent = with_queues(stage, 1)
    agent.ask(b"TDEL", agent.token_id)
    command = record(TokenDeleted(token_id=agent.token_id.hex()), MAX_RECEIVES)
    assert handling.handle([command], stage.clock(), until=0) == [command["messageId"]]
    assert [row.ended for row in stage.queues()] == [False]
    assert dead_letters(stage) == []


class OneTransaction:
    """The time is up after the first."""

    def __init__(self) -> None:
        self.until = time.monotonic() + 3600
        self.calls = 0

    def monotonic(self) -> float:
        self.calls += 1
        return self.until + (1 if self.calls > 1 else -1)


def test_what_there_is_no_time_for_goes_on_where_it_stopped(
    stage: Stage, handling: SimplexWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = with_queues(stage, 2 * token_queues.TRANSACTION_QUEUES + 1)
    agent.replace(OTHER_DEVICE)
    command = TokenReplaced(token_id=agent.token_id.hex())
    limited = []
    for _ in range(3):
        clock = OneTransaction()
        monkeypatch.setattr(token_queues, "time", clock)
        unfinished = handling.handle([record(command, MAX_RECEIVES)], stage.clock(), clock.until)
        limited.append((len(unfinished), sum(row.ttl is not None for row in stage.queues())))
    assert limited == [(1, 99), (1, 198), (0, 199)]


def test_a_thousand_queues_take_as_many_requests_as_transactions_need(stage: Stage, handling: SimplexWorker) -> None:
    agent = with_queues(stage, QUEUES_OF_TOKEN)
    made = list[str]()
    connection: Connection = stage.commands.store.connection

    def note(model: OperationModel, **_: object) -> None:
        made.append(model.name)

    connection.client.meta.events.register("before-call.dynamodb", note)
    died(stage, agent)
    assert made.count("TransactWriteItems") == 1 + 11
    assert made.count("UpdateItem") <= 2
    agent.activate()
    made.clear()
    stage.carry_out()
    assert made.count("TransactWriteItems") == 11 + 11
    assert stage.subscription(agent).rule_count == QUEUES_OF_TOKEN
    assert {row.ttl for row in stage.queues()} == {None}


def test_who_has_given_a_queue_up_is_not_overruled(stage: Stage) -> None:
    """The index may still have it otherwise: then it is tried again."""
    agent = with_queues(stage, 2)
    agent.replace(OTHER_DEVICE)
    stage.queues()[0].update(ending(stage.clock()))
    ended = [row.ttl for row in stage.queues() if row.ended]
    stage.carry_out()
    assert [row.ttl for row in stage.queues() if row.ended] == ended
    assert all(row.ttl == stage.token(agent).ttl for row in stage.queues() if not row.ended)


def test_the_rules_of_a_deleted_token_may_take_another_time(stage: Stage) -> None:
    agent = with_queues(stage, 0)
    agent.subscribe(1)
    agent.ask(b"TDEL", agent.token_id)
    [command] = stage.sent_commands()
    with pytest.raises(OutOfTimeError):
        stage.token_commands.handle(command, stage.clock(), until=0)
    stage.token_commands.handle(command, stage.clock())
    assert [row.ended for row in stage.queues()] == [True]


class Context:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def test_the_function_reports_what_is_to_come_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = with_queues(stage, 1)
    died(stage, agent)
    for name, value in settings(stage).items():
        monkeypatch.setenv(f"CLARION_{name.upper()}", value)
    worker._worker.cache_clear()
    early = record(TokenRevived(token_id=agent.token_id.hex()))
    answer = worker.handler({"Records": [early, record("{}")]}, cast("LambdaContext", Context()))
    worker._worker.cache_clear()
    assert answer == {"batchItemFailures": [{"itemIdentifier": early["messageId"]}]}
    assert all(json.loads(line) for line in capsys.readouterr().out.splitlines())
