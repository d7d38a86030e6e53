import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from moto import mock_aws
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.events import EventLog
from clarion.subscriptions import Registration, register
from clarion.tables import MODELS, Subscription, Token, bind
from pipeline.lake import DAY_MS, SCHEMAS, Kind, Lake, hour_columns
from pipeline.retire import Patience, listed, retire

NOW = 1_790_000_000_000
CLIENT = bytes(32)
PATIENCE = Patience(dead=30, idle=180)


class Stream:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def put_record_batch(self, *, DeliveryStreamName: str, Records: list[dict[str, bytes]]) -> dict[str, Any]:  # noqa: N803 - boto
        self.lines += [json.loads(line) for record in Records for line in record["Data"].splitlines()]
        return {"FailedPutCount": 0, "RequestResponses": []}


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        bind("test-")
        for model in MODELS:
            model.create_table(billing_mode="PAY_PER_REQUEST")
        yield Connection(region="us-east-1")


def told(lake: Lake, kind: Kind, rows: list[tuple[object, ...]]) -> None:
    frame = lake.spark.createDataFrame(rows, SCHEMAS[kind])
    lake.write(kind, frame.select("*", *hour_columns(frame["at"])))


def state(at: int, who: str, status: str) -> tuple[object, ...]:
    return (at, who, CLIENT, "fcm", status, None, 1, 1)


def test_only_the_long_dead_and_the_long_idle_are_listed(lake: Lake) -> None:
    old = NOW - 200 * DAY_MS
    told(lake, Kind.SUBSCRIPTION, [
        state(NOW - 31 * DAY_MS, "dead", "invalid"), state(NOW - 29 * DAY_MS, "dying", "invalid"),
        state(old, "idle", "active"), state(old, "matched", "active"), state(old, "ruled", "active"),
        state(NOW - DAY_MS, "new", "active"), state(old, "gone", "removed"),
    ])  # fmt: skip
    told(lake, Kind.RULES, [(NOW - DAY_MS, "added", "ruled", 1, 2, [(CLIENT, CLIENT, None)])])
    told(lake, Kind.NOTIFICATION, [
        (NOW - DAY_MS, "r", CLIENT, "queued", "matched", CLIENT, "fcm", CLIENT, CLIENT, None, None, None),
    ])  # fmt: skip
    found = {row["subscription_id"]: row["why"] for row in listed(lake, NOW, PATIENCE).collect()}
    assert found == {"dead": "dead", "idle": "idle"}


def test_they_are_removed_as_by_the_api_unless_touched_since(lake: Lake, connection: Connection) -> None:
    wishes = [Registration(CLIENT, Channel.FCM, f"token-{number}") for number in range(3)]
    rows = [register(connection, wish, now=NOW - 200 * DAY_MS) for wish in wishes]
    ids = [row.subscription_id for row in rows if isinstance(row, Subscription)]
    told(lake, Kind.SUBSCRIPTION, [state(NOW - 200 * DAY_MS, subscription_id, "active") for subscription_id in ids])
    Subscription(ids[0]).update([Subscription.updated_at.set(NOW - DAY_MS)])
    stream = Stream()
    events = EventLog(stream, "events")  # type: ignore[arg-type] # speaks as much of Firehose as is needed
    assert retire(listed(lake, NOW, PATIENCE), connection, events, NOW, lambda _: None) == 2
    assert {row.subscription_id for row in Subscription.scan()} == {ids[0]}
    assert {row.subscription_id for row in Token.scan()} == {ids[0]}
    assert {(UUID(line["subscription_id"]), line["status"]) for line in stream.lines} == {
        (UUID(one), "removed") for one in ids[1:]
    }
