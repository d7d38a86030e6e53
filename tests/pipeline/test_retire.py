import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import pytest
from moto import mock_aws
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.endings import Death, declare_dead
from clarion.event_log import EventLog, EventWriter
from clarion.generations import prefix
from clarion.networks import SIMPLEX, STATEMENTS, XMTP, ZULIP
from clarion.subscriptions import Registration, move, register
from clarion.tables import MODELS, RuleRow, Subscription, Token, bind
from pipeline.arguments import parse
from pipeline.columns import EventKind
from pipeline.generator.writing import declare_complete
from pipeline.jobs.retire import run
from pipeline.lake.event_lake import EventLake
from pipeline.lake.raw import RAW
from pipeline.period import DAY_MS, HOUR_MS, Period, hour_path, instant_text
from pipeline.repair.retire import RetireAfter, RetireStopped, retire, useless
from tests.events import SETTINGS, event_log
from tests.pipeline.small_lake import write_rows

NOW = 1_790_000_000_000
CLIENT = bytes(32)
AFTER = RetireAfter(dead=30, idle=180)


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


def state(at: int, who: str, status: str) -> tuple[object, ...]:
    return (at, STATEMENTS, who, CLIENT, "fcm", status, None, 1, 1)


def test_only_the_long_dead_and_the_long_idle_are_listed(lake: EventLake) -> None:
    old = NOW - 200 * DAY_MS
    write_rows(lake, EventKind.SUBSCRIPTION, [
        state(NOW - 31 * DAY_MS, "dead", "invalid"), state(NOW - 29 * DAY_MS, "dying", "invalid"),
        state(old, "idle", "active"), state(old, "matched", "active"), state(old, "ruled", "active"),
        state(NOW - DAY_MS, "new", "active"), state(old, "gone", "removed"),
        state(NOW - 31 * DAY_MS, "unproven", "expired"), state(NOW - 31 * DAY_MS, "waiting", "pending"),
    ])  # fmt: skip
    write_rows(lake, EventKind.RULES, [(NOW - DAY_MS, STATEMENTS, "added", "ruled", 1, 2, [(CLIENT, None, None)])])
    write_rows(lake, EventKind.NOTIFICATION, [
        (NOW - DAY_MS, STATEMENTS, "r", CLIENT, "queued", "matched", CLIENT, "fcm", CLIENT, CLIENT, *[None] * 4),
    ])  # fmt: skip
    found = {row["subscription_id"]: row["why"] for row in useless(lake, NOW, AFTER).collect()}
    assert found == {"dead": "dead", "unproven": "dead", "idle": "idle"}


def test_what_a_server_pushes_to_is_not_idle(lake: EventLake) -> None:
    old = NOW - 200 * DAY_MS
    write_rows(lake, EventKind.SUBSCRIPTION, [
        (old, ZULIP, who, CLIENT, "fcm", "active", None, 1, 1) for who in ("pushed", "woken", "pushed long ago")
    ])  # fmt: skip
    write_rows(lake, EventKind.PUSH, [
        (at, ZULIP, "r", CLIENT, "delivered", purpose, who, "fcm", 1, 9, *[None] * 4)
        for at, who, purpose in (
            (NOW - DAY_MS, "pushed", "direct"),
            (NOW - DAY_MS, "woken", "wake_up"),
            (NOW - 190 * DAY_MS, "pushed long ago", "direct"),
        )
    ])  # fmt: skip
    assert {row["subscription_id"] for row in useless(lake, NOW, AFTER).collect()} == {"pushed long ago"}


def test_what_its_network_ends_by_itself_is_never_idle(lake: EventLake) -> None:
    old = NOW - 200 * DAY_MS
    write_rows(lake, EventKind.SUBSCRIPTION, [
        (old, name, name, CLIENT, "apns", "active", None, 1, 1) for name in (STATEMENTS, XMTP, SIMPLEX)
    ])  # fmt: skip
    assert {row["subscription_id"] for row in useless(lake, NOW, AFTER).collect()} == {STATEMENTS}


def test_nobody_is_idle_by_a_lake_that_lacks_an_hour(lake: EventLake, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(lake, EventKind.SUBSCRIPTION, [
        state(NOW - 31 * DAY_MS, "dead", "invalid"), state(NOW - 5 * DAY_MS, "idle", "active"),
    ])  # fmt: skip
    hours = list(Period(NOW - 2 * DAY_MS - HOUR_MS, NOW - HOUR_MS).hours())
    declare_complete(lake.root, [*hours[:9], *hours[10:]], NOW)
    wanted = ["retire", "--lake", lake.root, "--dry-run", "--idle-days", "2", "--now", instant_text(NOW)]
    assert run(lake, parse(wanted)) == 1
    said = capsys.readouterr().err
    assert (f"incomplete: {hours[9]}: nothing has arrived" in said, "1 dead" in said, "1 idle" in said) == (
        True, True, False
    )  # fmt: skip
    declare_complete(lake.root, [hours[9]], NOW)
    lake.view.refresh()
    # What has come of the hour under way is known to nobody yet.
    under_way = Path(lake.root) / RAW / f"day={hour_path(NOW).replace('/', '/hour=')}" / "new"
    under_way.parent.mkdir(parents=True)
    under_way.write_text("{}")
    assert run(lake, parse(wanted)) == 0
    said = capsys.readouterr().err
    assert ("1 dead" in said, "1 idle" in said) == (True, True)


def test_what_has_ended_stays_for_as_long_as_it_may_be_dead(lake: EventLake) -> None:
    write_rows(lake, EventKind.SUBSCRIPTION, [state(NOW - 2 * DAY_MS, "ended", "invalid")])
    assert not useless(lake, NOW, RetireAfter(dead=3, idle=0)).collect()
    assert [row["why"] for row in useless(lake, NOW, RetireAfter(dead=2, idle=0)).collect()] == ["dead"]


def test_one_that_lives_again_under_its_id_stays(lake: EventLake, connection: Connection) -> None:
    device = Registration(ZULIP, CLIENT, Channel.FCM, "token", subscription_id=str(UUID(int=7)))
    made = register(connection, device, now=NOW - 40 * DAY_MS)
    assert isinstance(made, Subscription)
    [ended] = declare_dead(connection, made, Death("UNREGISTERED", NOW - 31 * DAY_MS))
    write_rows(lake, EventKind.SUBSCRIPTION, [
        (NOW - 31 * DAY_MS, ZULIP, ended.subscription_id, CLIENT, "fcm", "invalid", "UNREGISTERED", 2, 2)
    ])  # fmt: skip
    found = useless(lake, NOW, AFTER).persist()
    assert found.count() == 1
    assert isinstance(move(connection, ended, device, now=NOW), Subscription)

    assert retire(found, connection, event_log(), NOW, lambda _: None) == 0

    assert [row.subscription_id for row in Token.scan()] == [ended.subscription_id]


@pytest.mark.parametrize("days", ["0", "-1", "a"])
@pytest.mark.parametrize("option", ["--dead-days", "--idle-days"])
def test_nothing_is_removed_within_a_day_of_its_end_or_its_use(option: str, days: str) -> None:
    with pytest.raises(SystemExit):
        parse(["retire", "--lake", "lake", option, days])


def test_they_are_removed_as_by_the_api_unless_touched_since(lake: EventLake, connection: Connection) -> None:
    registrations = [Registration(STATEMENTS, CLIENT, Channel.FCM, f"token-{number}") for number in range(3)]
    rows = [register(connection, one, now=NOW - 200 * DAY_MS) for one in registrations]
    ids = [row.subscription_id for row in rows if isinstance(row, Subscription)]
    write_rows(
        lake, EventKind.SUBSCRIPTION, [state(NOW - 200 * DAY_MS, subscription_id, "active") for subscription_id in ids]
    )
    Subscription(ids[0]).update([Subscription.updated_at.set(NOW - DAY_MS)])
    stream = Stream()
    writer = EventWriter(stream, boto3.client("sqs"), SETTINGS)  # type: ignore[arg-type] # speaks as much of Firehose as is needed
    assert retire(useless(lake, NOW, AFTER), connection, EventLog(writer), NOW, lambda _: None) == 2
    assert {row.subscription_id for row in Subscription.scan()} == {ids[0]}
    assert {row.subscription_id for row in Token.scan()} == {ids[0]}
    assert {(UUID(line["subscription_id"]), line["status"]) for line in stream.lines} == {
        (UUID(one), "removed") for one in ids[1:]
    }


class KilledError(Exception):
    """As by `kill -9`."""


class KilledLog(EventLog):
    def flush(self) -> int:
        raise KilledError


def test_a_removal_whose_event_a_killed_run_has_not_emitted_is_emitted_by_the_next_one(
    lake: EventLake, connection: Connection
) -> None:
    row = register(connection, Registration(STATEMENTS, CLIENT, Channel.FCM, "token"), now=NOW - 200 * DAY_MS)
    assert isinstance(row, Subscription)
    write_rows(lake, EventKind.SUBSCRIPTION, [state(NOW - 200 * DAY_MS, row.subscription_id, "active")])
    found, stream = useless(lake, NOW, AFTER).persist(), Stream()
    writer = EventWriter(stream, boto3.client("sqs"), SETTINGS)  # type: ignore[arg-type] # speaks as much of Firehose as is needed
    with pytest.raises(KilledError):
        retire(found, connection, KilledLog(writer), NOW, lambda _: None)
    assert (list(Subscription.scan()), stream.lines) == ([], [])
    assert retire(found, connection, EventLog(writer), NOW, lambda _: None) == 0
    [line] = stream.lines
    assert (UUID(line["subscription_id"]), line["status"], line["revision"]) == (
        UUID(row.subscription_id), "removed", 2
    )  # fmt: skip


def test_the_new_rules_of_one_stay_that_is_made_again_while_its_removal_is_emitted(
    lake: EventLake, connection: Connection
) -> None:
    who = str(UUID(int=7))
    write_rows(lake, EventKind.SUBSCRIPTION, [(NOW - 31 * DAY_MS, XMTP, who, CLIENT, "fcm", "invalid", None, 1, 1)])

    class RegisteringLog(EventLog):
        def flush(self) -> int:
            again = Registration(XMTP, CLIENT, Channel.FCM, "token", subscription_id=who)
            row = register(connection, again, now=NOW)
            assert isinstance(row, Subscription)
            RuleRow(who, prefix(int(row.generation)) + b"key", key=b"key").save()
            return super().flush()

    writer = EventWriter(Stream(), boto3.client("sqs"), SETTINGS)  # type: ignore[arg-type] # speaks as much of Firehose as is needed
    retire(useless(lake, NOW, AFTER), connection, RegisteringLog(writer), NOW, lambda _: None)
    assert [row.subscription_id for row in Subscription.scan()] == [who]
    assert [rule.subscription_id for rule in RuleRow.scan()] == [who]


def test_a_removal_whose_events_are_lost_is_named_and_the_last_one(lake: EventLake, connection: Connection) -> None:
    rows = [
        register(connection, Registration(STATEMENTS, bytes([number]) * 32, Channel.FCM, f"token-{number}"), now=1)
        for number in range(2)
    ]
    made = [row for row in rows if isinstance(row, Subscription)]
    write_rows(lake, EventKind.SUBSCRIPTION, [
        (1, STATEMENTS, row.subscription_id, row.client_id, "fcm", "active", None, 1, 1) for row in made
    ])  # fmt: skip
    with pytest.raises(RetireStopped, match=made[0].subscription_id):
        retire(useless(lake, NOW, AFTER), connection, event_log(), NOW, lambda _: None)
    assert [row.subscription_id for row in Subscription.scan()] == [made[1].subscription_id]
