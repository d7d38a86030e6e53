"""What a token of SimpleX costs in a month in which nothing is pushed to it: at most a tenth of a cent."""

from collections.abc import Iterator
from itertools import count

import boto3
import pytest

from clarion.networks.simplex.encoding import Reader
from pipeline.prices import READ_UNIT, WRITE_UNIT
from tests.match.meter import READ_BYTES, Bill, meter
from tests.simplex import Agent, Stage, staged

AIM = 0.001
"""Dollars a month."""
DOCUMENTED = 0.0001
DOCUMENTED = 0.0001
DAYS = 30
QUEUES = 10
GIGABYTE_MONTH, BACKUP_GIGABYTE_MONTH = 0.25, 0.20
ROW_BYTES = 100
"""That DynamoDB adds to each row, and to each entry of an index."""
CHECKS = DAYS // 3
"""Of each subscription: so often does an agent ask about it by SCHK."""
RESTARTS = DAYS
"""Of the task of ingest that follows the queues: each reads their entries in the index. It is one a day, say."""


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with staged(monkeypatch) as made:
        yield made


def subscribed(stage: Stage) -> tuple[Agent, list[bytes]]:
    """An agent, and the ids of its subscriptions."""
    agent, numbers = stage.agent().activate(), count()
    replies = [agent.subscribe(number) for number, _ in zip(numbers, range(QUEUES), strict=False)]
    return agent, [Reader(reply.removeprefix(b"IDSUB ")).short() for reply in replies]


def stored_bytes(stage: Stage) -> int:
    """Of all rows, and of their entries in indexes as if these had the whole."""
    client, total = boto3.client("dynamodb"), 0
    for name in client.list_tables()["TableNames"]:
        indexes = len(client.describe_table(TableName=name)["Table"].get("GlobalSecondaryIndexes", ()))
        rows = client.scan(TableName=name)["Items"]
        total += (1 + indexes) * sum(_size(row) + ROW_BYTES for row in rows)
    return total


def _size(row: object) -> int:
    return len(repr(row))


def asked(agent: Agent, subscriptions: list[bytes]) -> Bill:
    """What all checks of a month take."""
    with meter.running() as bill:
        for each in subscriptions:
            assert agent.ask(b"SCHK", each).startswith(b"SUB ")
    return Bill(reads=bill.reads * CHECKS, writes=bill.writes * CHECKS)


def test_an_idle_token_costs_a_tenth_of_a_cent_a_month_at_most(stage: Stage) -> None:
    agent, subscriptions = subscribed(stage)
    kept = stored_bytes(stage) / 1e9 * (GIGABYTE_MONTH + BACKUP_GIGABYTE_MONTH)
    bill = asked(agent, subscriptions)
    followed = RESTARTS * stored_bytes(stage) / READ_BYTES / 2
    requests = ((bill.reads + followed) * READ_UNIT + bill.writes * WRITE_UNIT) / 1e6
    assert kept + requests <= DOCUMENTED <= AIM


def test_nothing_of_it_is_pushed_or_ordered(stage: Stage) -> None:
    subscribed(stage)
    stage.sent_commands()
    assert stage.pushes() == []
    assert stage.sent_commands() == []
