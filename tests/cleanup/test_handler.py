import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID, uuid4

import boto3
import pytest
from moto import mock_aws
from pynamodb.connection import Connection

from clarion import generations, subscriptions, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.decisions import SubscriptionStatus
from clarion.endings import HOLDERS, Death, declare_dead
from clarion.networks import STATEMENTS, ZULIP
from clarion.rulesets import Owner, RequestContext, RuleSet, RuleSets
from clarion.subscriptions import Registration
from clarion.tables import RuleRow, Subscription, Token, WakeUp
from clarion.tokens import hash_of, token_of
from cleanup import handler as cleanup

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

ACCOUNT = "123456789012"
OWNER = Owner(STATEMENTS, b"c" * 32)
NOW = RequestContext(now=1)
DIED_AT = 1_000
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

    def events(self) -> list[dict[str, Any]]:
        url = self._sqs.get_queue_url(QueueName="late-events")["QueueUrl"]
        received = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        return [json.loads(line) for message in received for line in message["Body"].splitlines()]

    def deliver(self, seconds: int = 60) -> list[str]:
        """Returns the bodies of the messages that come again."""
        return self.handle(self.receive(), seconds)

    def receive(self) -> list[str]:
        received = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10).get("Messages", [])
        return [message["Body"] for message in received]

    def handle(self, bodies: Sequence[str], seconds: int = 60) -> list[str]:
        records = [{"messageId": str(number), "body": body} for number, body in enumerate(bodies)]
        answer = cleanup.handler({"Records": records}, cast("LambdaContext", Context(seconds)))
        return [bodies[int(failure["itemIdentifier"])] for failure in answer["batchItemFailures"]]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Requests]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    settings = {"TABLE_PREFIX": "clarion-test-", "EVENTS_STREAM": "lake"}
    urls = {name: f"https://sqs.us-east-1.amazonaws.com/{ACCOUNT}/{name}" for name in ("cleanup", "late-events")}
    queues = {"CLEANUP_QUEUE_URL": urls["cleanup"], "LATE_EVENTS_QUEUE_URL": urls["late-events"]}
    for name, value in {**settings, **queues}.items():
        monkeypatch.setenv(f"CLARION_{name}", value)
    with mock_aws():
        cleanup._worker.cache_clear()
        connection = tables.bind("clarion-test-")
        for model in (Subscription, Token, RuleRow, WakeUp):
            model.create_table(billing_mode="PAY_PER_REQUEST")
        # There is no stream, so that events are late.
        boto3.client("sqs").create_queue(QueueName="late-events")
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
    events = cleanup._worker().connection.client.meta.events
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


def devices(count: int) -> list[Subscription]:
    """Of one token."""
    rows = [device(str(UUID(int=number))) for number in range(count)]
    with Subscription.batch_write() as batch:
        for row in rows:
            batch.save(row)
    with Token.batch_write() as batch:
        for row in rows:
            batch.save(token_of(row))
    return rows


def device(name: str, created_at: int = 1) -> Subscription:
    """Of an additive network."""
    return Subscription(
        name,
        client_id=b"s" * 16,
        network=ZULIP,
        channel=Channel.APNS.value,
        token="a1" * 32,
        status=SubscriptionStatus.ACTIVE.value,
        generation=1,
        rule_count=0,
        created_at=created_at,
        updated_at=created_at,
    )


def die(requests: Requests, row: Subscription) -> list[Subscription]:
    """As dispatch declares it."""
    queue = requests.queue
    death = Death("Unregistered", at=DIED_AT)
    return declare_dead(
        requests.connection, row, death, request_cleanup=queue.send, request_endings=queue.send_dead_token
    )


def transactions(connection: Connection) -> list[str]:
    """A line for each from now on."""
    made = list[str]()
    connection.client.meta.events.register(
        "before-call.dynamodb.TransactWriteItems", lambda model, **_: made.append(model.name)
    )
    return made


def active(rows: list[Subscription]) -> int:
    found = Subscription.batch_get([row.subscription_id for row in rows])
    return sum(row.status == SubscriptionStatus.ACTIVE for row in found)


def test_a_page_of_a_dead_tokens_holders_ends_at_once_and_all_others_by_a_request(requests: Requests) -> None:
    rows = devices(2 * HOLDERS)
    assert len(die(requests, rows[-1])) == HOLDERS + 1
    assert active(rows) == HOLDERS - 1
    assert requests.deliver() == []
    assert active(rows) == 0
    assert Token.count(hash_of(rows[0])) == 0
    ended = [(event["status"], event["status_reason"]) for event in requests.events()]
    assert ended == [("invalid", "Unregistered")] * (HOLDERS - 1)


def test_two_thousand_holders_are_too_many_for_no_one(requests: Requests) -> None:
    rows, written = devices(2_000), transactions(requests.connection)
    assert len(die(requests, rows[0])) == HOLDERS
    assert len(written) == HOLDERS
    bodies = requests.receive()
    assert max(map(len, bodies)) < 2_000, "no message grows with the holders"
    again = requests.handle(bodies, seconds=0)
    assert len(again) == 1
    assert active(rows) == 2_000 - HOLDERS - 1, "each time one ends at least"


def test_a_request_to_end_holders_goes_on_where_it_stopped(requests: Requests) -> None:
    rows = devices(HOLDERS + 3)
    die(requests, rows[0])
    bodies, rounds = requests.receive(), 0
    while bodies:
        bodies, rounds = requests.handle(bodies, seconds=0 if rounds < 3 else 60), rounds + 1
    assert active(rows) == 0
    assert rounds == 4


def test_a_holder_that_registered_after_the_death_lives(requests: Requests) -> None:
    rows = devices(HOLDERS + 2)
    die(requests, rows[0])
    rows[-1].update([Subscription.created_at.set(DIED_AT + 1), Subscription.revision.add(1)])
    assert requests.deliver() == []
    assert active(rows) == 1


def test_a_request_to_end_holders_that_comes_twice_ends_none_that_begins_anew(requests: Requests) -> None:
    rows = devices(HOLDERS + 2)
    die(requests, rows[0])
    bodies = requests.receive()
    assert requests.handle(bodies) == []
    again = device(rows[-1].subscription_id, created_at=DIED_AT + 1)
    again.save()
    token_of(again).save()
    assert requests.handle(bodies) == []
    assert active(rows) == 1
