"""Ingest and match together, while rules change: nobody loses a push, and nobody gets two."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.decisions import SubscriptionStatus
from clarion.messages import EnvelopeMessage, MatchMessage, PushMessage, SecondLookMessage
from clarion.networks import STATEMENTS
from clarion.networks.statements.codec import encode
from clarion.networks.statements.rules import key_of
from clarion.rulesets import Owner, RequestContext, RuleSets
from clarion.tables import MODELS, RuleRow, Subscription, bind, rule_key
from ingest.wiring import AwsClients
from match.settings import MatchSettings
from match.worker import MatchClients, MatchWorker
from tests.ingest.conftest import MakeSettings
from tests.match.scene import NOT_SHOWN_YET, InTurn, Queues, Sender
from tests.match.scene import received as as_received

if TYPE_CHECKING:
    from tests.ingest.conftest import FakeNode, ReadLake, ReceivedQueue, Run


ONE, OTHER = b"\x01" * 32, b"\x02" * 32


@pytest.fixture
def tables(aws: None, sdk: AwsClients) -> Iterator[Connection]:
    """All of them, and the stream of the rules."""
    connection = bind("test-")
    for model in MODELS:
        model.create_table(billing_mode="PAY_PER_REQUEST")
    stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
    sdk.dynamodb.update_table(TableName="test-rules", StreamSpecification=stream)  # type: ignore[arg-type] # TypedDict
    yield connection
    bind("test-", pool=1, seconds=1)


@dataclass
class Matching:
    worker: MatchWorker
    clients: MatchClients
    queues: Queues

    def take(self, message: MatchMessage) -> None:
        assert self.worker.handle([as_received("0", message.to_json())]) == []

    def before_second_query(self, change: Callable[[], None]) -> None:
        queries = 0

        def count(**_: object) -> None:
            nonlocal queries
            queries += 1
            if queries == 2:
                change()

        self.clients.dynamodb.meta.events.register_first("before-call.dynamodb.Query", count)

    def pushed_to(self) -> list[str]:
        pushes = [PushMessage.model_validate_json(body) for body in self.queues.drain(Channel.APNS)]
        return sorted(str(push.subscription_id) for push in pushes)


@pytest.fixture
def matching(tables: Connection, received: "ReceivedQueue", sdk: AwsClients, lake: "ReadLake") -> Matching:
    urls = {f"{name}_queue_url": sdk.sqs.create_queue(QueueName=name)["QueueUrl"] for name in Channel}
    settings = MatchSettings.model_validate(
        {
            "table_prefix": "test-",
            "queue_url": received.url,
            "pages_queue_url": received.url,
            "events_stream": "events",
            "late_events_queue_url": "late-events",
            "oversize_bucket": "oversize",
            **urls,
        }
    )
    made = MatchClients.make("test-")
    clients = MatchClients(made.dynamodb, made.sqs, made.firehose, made.s3, InTurn())
    return Matching(MatchWorker.open(settings, clients), clients, Queues.of(settings))


def named(message: MatchMessage) -> tuple[str, ...]:
    match message:
        case EnvelopeMessage():
            return message.changed
        case SecondLookMessage():
            return message.subscription_ids
    return ()


def subscribe(sender: Sender, topic: bytes) -> Subscription:
    now = 1_700_000_000_000
    subscription = Subscription(
        str(uuid4()),
        client_id=uuid4().bytes * 2,
        network=STATEMENTS,
        channel=Channel.APNS.value,
        token="a-token",
        status=SubscriptionStatus.ACTIVE.value,
        generation=1,
        rule_count=1,
        created_at=now,
        updated_at=now,
    )
    subscription.save()
    key = key_of(sender.key, topic)
    RuleRow(subscription.subscription_id, rule_key(1, key), key=key).save()
    return subscription


async def test_a_rule_that_moves_between_the_two_readings_of_the_index_loses_no_push_and_repeats_none(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    tables: Connection,
    matching: Matching,
) -> None:
    """The statement has both topics, and another subscription matches all the time."""
    sender = Sender()
    moving, steady = subscribe(sender, ONE), subscribe(sender, OTHER)

    def put() -> None:
        rules = RuleSets(tables, limit=10, request_cleanup=lambda *_: None)
        owner = Owner(STATEMENTS, moving.client_id)
        rules.replace(moving.subscription_id, owner, {key_of(sender.key, OTHER): b""}, RequestContext(now=1))

    async with running(make_settings(node, rule_lag_seconds=5.0)):
        await node.subscribed()
        node.show(encode(sender.states(OTHER, ONE)))
        [first] = await received.holds(1)
        matching.before_second_query(put)
        matching.take(first)
        assert matching.pushed_to() == [steady.subscription_id]
        [_, second] = await received.holds(2)
        matching.take(second)
        assert matching.pushed_to() == [moving.subscription_id]
        matching.take(first)
        matching.take(second)
        await asyncio.sleep(0.6)
        assert len(received.read()) == 2


async def test_a_fresh_rule_that_the_index_does_not_show_yet_counts_where_others_match(
    node: "FakeNode",
    running: "Run",
    received: "ReceivedQueue",
    make_settings: MakeSettings,
    tables: Connection,
    matching: Matching,
) -> None:
    sender = Sender()
    steady = subscribe(sender, ONE)
    async with running(make_settings(node, rule_lag_seconds=5.0)):
        await node.subscribed()
        fresh = subscribe(sender, ONE)
        RuleRow(fresh.subscription_id, rule_key(1, key_of(sender.key, ONE))).update(
            actions=[RuleRow.key.set(NOT_SHOWN_YET)]
        )
        node.show(encode(sender.states(ONE)))
        while not any(fresh.subscription_id in named(message) for message in received.read()):
            await asyncio.sleep(0.01)
    for message in received.messages:
        matching.take(message)
    assert matching.pushed_to() == sorted([steady.subscription_id, fresh.subscription_id])
