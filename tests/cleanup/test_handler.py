import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws
from pynamodb.connection import Connection

from clarion import generations, subscriptions, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.endings import Death, declare_dead
from clarion.networks import STATEMENTS
from clarion.rulesets import Owner, RequestContext, RuleSet, RuleSets
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token
from cleanup import handler as cleanup

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

OWNER = Owner(STATEMENTS, b"c" * 32)
NOW = RequestContext(now=1)
MANY: RuleSet = {number.to_bytes(65): b"" for number in range(150)}
FEW: RuleSet = {number.to_bytes(65): b"" for number in range(500, 520)}


class Context:
    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return self._seconds * 1000


class Requests:
    """RuleRow sets whose requests for a clean-up go to a queue, and from there, when asked, to the Lambda."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._sqs = boto3.client("sqs")
        self._url = self._sqs.create_queue(QueueName="cleanup")["QueueUrl"]
        self.queue = CleanupQueue(self._sqs, self._url)
        self.rule_sets = RuleSets(connection, limit=1000, request_cleanup=self.queue.send_claim)

    def subscription(self) -> str:
        row = subscriptions.register(self.connection, Registration(*OWNER, Channel.FCM, str(uuid4())), now=1)
        assert isinstance(row, Subscription)
        return row.subscription_id

    def deliver(self, seconds: int = 60) -> list[str]:
        """Returns the bodies of the messages that come again."""
        received = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", [])
        bodies = {message["MessageId"]: message["Body"] for message in received}
        records = [{"messageId": name, "body": body} for name, body in bodies.items()]
        answer = cleanup.handler({"Records": records}, cast("LambdaContext", Context(seconds)))
        return [bodies[failure["itemIdentifier"]] for failure in answer["batchItemFailures"]]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("CLARION_TABLE_PREFIX", "clarion-test-")
    with mock_aws():
        cleanup._connection.cache_clear()
        connection = tables.bind("clarion-test-")
        for model in (Subscription, Token, RuleRow):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        yield Requests(connection)


def stored(sid: str) -> int:
    return RuleRow.count(sid, consistent_read=True)


def in_index(rules: RuleSet) -> int:
    return sum(1 for key in rules for _ in RuleRow.by_key.query(key))


def replace(requests: Requests, sid: str, rules: RuleSet) -> None:
    requests.rule_sets.replace(sid, OWNER, rules, NOW)


def test_the_rules_of_a_dead_token_leave_the_index(requests: Requests) -> None:
    sid, other = requests.subscription(), requests.subscription()
    for each in (sid, other):
        replace(requests, each, FEW)
    requests.queue.send([sid])
    assert declare_dead(requests.connection, Subscription.get(sid), Death("gone", at=1))
    assert in_index(FEW) == 40
    assert requests.deliver() == []
    assert (stored(sid), stored(other), in_index(FEW)) == (0, 20, 20)


def test_a_request_for_a_death_that_was_not_recorded_erases_nothing(requests: Requests) -> None:
    sid = requests.subscription()
    replace(requests, sid, MANY)
    requests.queue.send([sid])
    assert requests.deliver() == []
    assert stored(sid) == 150


def crash(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("before", [FEW, MANY], ids=["after a small one", "after a large one"])
def test_what_an_interrupted_put_wrote_goes(
    requests: Requests, monkeypatch: pytest.MonkeyPatch, before: RuleSet
) -> None:
    sid = requests.subscription()
    replace(requests, sid, before)
    requests.deliver()
    with monkeypatch.context() as patch:
        patch.setattr("clarion.rulesets.flip", crash)
        with pytest.raises(KeyboardInterrupt):
            replace(requests, sid, {number.to_bytes(65): b"" for number in range(1000, 1200)})
    assert stored(sid) == len(before) + 200
    replace(requests, sid, {**before, bytes(64) + b"\xff": b""})
    assert requests.deliver() == []
    assert stored(sid) == len(before) + 1
    found = requests.rule_sets.read(sid, OWNER)
    assert isinstance(found, tuple)
    assert found[1].keys() == {*before, bytes(64) + b"\xff"}


def test_the_old_set_goes_if_a_put_ends_before_it_is_erased(requests: Requests) -> None:
    sid = requests.subscription()
    replace(requests, sid, MANY)
    replace(requests, sid, FEW)
    assert stored(sid) == 170
    assert requests.deliver() == []
    assert (stored(sid), in_index(FEW), in_index(MANY)) == (20, 20, 0)


def test_a_set_that_is_being_written_is_left_alone(requests: Requests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever claims later asks later: an earlier request never reaches its rules."""
    sid = requests.subscription()
    replace(requests, sid, MANY)
    earlier = generations.flip

    def flip(*arguments: Any) -> Any:
        requests.deliver()
        return earlier(*arguments)

    requests.deliver()
    requests.queue.send([sid], int(Subscription.get(sid).revision))
    requests.rule_sets._request_cleanup = lambda *_: None
    monkeypatch.setattr("clarion.rulesets.flip", flip)
    replace(requests, sid, {number.to_bytes(65): b"" for number in range(1000, 1200)})
    found = requests.rule_sets.read(sid, OWNER)
    assert isinstance(found, tuple)
    assert len(found[1]) == 200


def test_the_rules_of_a_removed_subscription_go(requests: Requests) -> None:
    sid = requests.subscription()
    replace(requests, sid, MANY)
    requests.queue.send([sid])
    subscriptions.remove(requests.connection, [sid], OWNER)
    assert requests.deliver() == []
    assert stored(sid) == 0


def test_the_rules_of_a_subscription_that_is_made_again_meanwhile_stay(requests: Requests) -> None:
    sid = str(uuid4())

    def make(now: int, rules: RuleSet) -> None:
        registration = Registration(*OWNER, Channel.FCM, str(uuid4()), subscription_id=sid)
        subscriptions.register(requests.connection, registration, now=now)
        replace(requests, sid, rules)

    def make_again(params: dict[str, Any], **_: Any) -> None:
        if RuleRow.Meta.table_name in str(params["body"]):
            events.unregister("before-call.dynamodb.Query", make_again)
            make(1_000_000, FEW)

    make(1, MANY)
    requests.queue.send([sid])
    subscriptions.remove(requests.connection, [sid], OWNER)
    events = cleanup._connection().client.meta.events
    events.register("before-call.dynamodb.Query", make_again)
    assert requests.deliver() == []
    assert Subscription.get(sid).rule_count == stored(sid) == in_index(FEW) == len(FEW)


def test_what_there_is_no_time_for_comes_again(requests: Requests) -> None:
    sid = requests.subscription()
    replace(requests, sid, MANY)
    replace(requests, sid, FEW)
    (again, *_) = requests.deliver(seconds=0)
    assert json.loads(again)["subscription_ids"] == [sid]
    assert stored(sid) == 170


@pytest.mark.parametrize("body", ["", "{}", '{"version": 2, "subscription_ids": []}', '{"subscription_ids": ["x"]}'])
def test_a_message_that_can_t_be_read_goes_the_way_of_the_dead_letters(requests: Requests, body: str) -> None:
    event = {"Records": [{"messageId": "one", "body": body}]}
    answer = cleanup.handler(event, cast("LambdaContext", Context(60)))
    assert answer == {"batchItemFailures": [{"itemIdentifier": "one"}]}


def test_a_table_that_is_out_of_reach_brings_the_message_again(
    requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    sid = requests.subscription()
    requests.queue.send([sid])
    Subscription.delete_table()
    assert len(requests.deliver()) == 1


def test_twice_is_as_good_as_once(requests: Requests) -> None:
    sid = requests.subscription()
    replace(requests, sid, MANY)
    for _ in range(2):
        requests.queue.send([sid], 99)
        assert requests.deliver() == []
        assert stored(sid) == 150
