"""The one page that an operator looks at first."""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from clarion.metrics import NAMESPACE, dimensions
from console.status import PREMATURE, is_premature, look
from tests.console.account import Account, Clarion

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch.type_defs import DimensionTypeDef, MetricDatumTypeDef


def measure(account: Account, name: str, component: str, *values: float, minutes_ago: int = 0) -> None:
    at = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    selected: list[DimensionTypeDef] = [
        {"Name": dimension, "Value": value} for dimension, value in dimensions(component, "prod").items()
    ]
    data: list[MetricDatumTypeDef] = [
        {"MetricName": name, "Dimensions": selected, "Value": value, "Timestamp": at} for value in values
    ]
    account.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)


def test_the_funnel_is_that_of_the_dashboard(account: Account) -> None:
    measure(account, "envelopes_received", "ingest", 60, 40)
    measure(account, "envelope_matched", "match", 7)
    measure(account, "latency", "dispatch", 90, 80, 120, 95, 100)

    found = look(account.here, 60)

    assert found.measures.counts == {"envelopes_received": 100, "envelope_matched": 7, "push_delivered": 5}
    assert found.measures.latency == {"p50": 95, "p99": 120}


def test_gauges_are_the_latest(account: Account) -> None:
    measure(account, "ingest_lag", "ingest", 1500)
    account.cloudwatch.put_metric_data(
        Namespace="AWS/SQS",
        MetricData=[
            {
                "MetricName": "ApproximateAgeOfOldestMessage",
                "Dimensions": [{"Name": "QueueName", "Value": "clarion-prod-voip"}],
                "Value": 44,
                "Timestamp": datetime.now(UTC),
            }
        ],
    )

    found = look(account.here, 5)

    assert found.measures.gauges == {"ingest_lag": 1500}
    assert [queue.oldest_seconds for queue in found.queues] == [None, None, 44, None, None, None]


def test_queues_are_shown_with_held_messages_and_dead_letters_and_whether_they_are_muted(
    clarion: Clarion, account: Account
) -> None:
    account.send("envelopes", "one", "two", "three")
    account.send("fcm-dead", "a letter")
    account.send("apns-held", "waits for a key", "and so does this")
    clarion("mute", "apns", "--yes")

    found = look(account.here, 60)

    assert [(queue.name, queue.waiting, queue.held, queue.dead, queue.muted) for queue in found.queues] == [
        ("envelopes", 3, None, 0, False),
        ("apns", 0, 2, 0, True),
        ("voip", 0, None, 0, False),
        ("fcm", 0, 0, 1, False),
        ("webpush", 0, 0, 0, False),
        ("cleanup", 0, None, 0, False),
    ]
    assert found.troubles == ["1 dead letter", "muted: apns", "no ingest task is at work"]


def test_an_alarm_is_told_with_its_runbook(account: Account) -> None:
    account.raise_alarm("queue-old-voip", minutes=3)

    found = look(account.here, 60)

    (alarm,) = found.alarms
    assert alarm.name == "queue-old-voip"
    assert alarm.runbook.endswith("docs/operations.md#queue-old-voip")
    assert "1 alarm" in found.troubles


def test_an_alarm_that_misses_what_was_before_it_is_no_trouble_yet(
    clarion: Clarion, account: Account, at_work: None
) -> None:
    account.raise_alarm("pipeline-silent", minutes=1_800, missing="breaching")

    found = look(account.here, 60)
    ended = clarion("status")

    assert [(alarm.name, alarm.premature) for alarm in found.alarms] == [("pipeline-silent", True)]
    assert (ended.code, found.troubles) == (0, [])
    assert PREMATURE in ended.out


def test_an_alarm_is_premature_for_as_long_as_it_looks_back(account: Account) -> None:
    account.raise_alarm("ticks-missing", minutes=10, missing="breaching")
    (alarm,) = account.cloudwatch.describe_alarms()["MetricAlarms"]
    made = alarm["AlarmConfigurationUpdatedTimestamp"]

    assert is_premature(alarm, made + timedelta(minutes=9))
    assert not is_premature(alarm, made + timedelta(minutes=10))


def test_a_task_is_at_work_that_renewed_its_lease_lately(account: Account, at_work: None) -> None:
    account.renew_lease("task-2", seconds_ago=3600)
    account.renew_lease("task-3", seconds_ago=1, ended=True)

    (task,) = look(account.here, 60).tasks

    assert task.name == "task-1"
    assert 2 <= task.renewed_seconds < 60


def test_all_is_well_where_nothing_is_wrong(clarion: Clarion, account: Account, at_work: None) -> None:
    ended = clarion("status")

    assert ended.code == 0
    assert "all is well" in ended.out
    assert "task-1" in ended.out


def test_where_no_network_is_followed_no_task_is_missed(clarion: Clarion, account: Account) -> None:
    account.cloudformation.stacks["clarion-prod-stack"].pop("IngestRoleArn")

    ended = clarion("status")

    assert ended.code == 0
    assert "all is well" in ended.out
    assert "Ingest" not in ended.out


def test_a_program_gets_the_same_and_an_exit_code(clarion: Clarion, account: Account) -> None:
    account.send("voip-dead", "a letter")

    ended = clarion("status", "--json", "--minutes", "15")

    status = json.loads(ended.out)
    assert (ended.code, status["stage"], status["minutes"]) == (1, "prod", 15)
    assert [queue["dead"] for queue in status["queues"]] == [0, 0, 1, 0, 0, 0]
    assert status["troubles"] == ["1 dead letter", "no ingest task is at work"]


def test_a_queue_that_nothing_works_off_counts_as_muted(account: Account) -> None:
    live = account.here.queue("voip").live
    (source,) = account.lambda_.list_event_source_mappings(FunctionName=live)["EventSourceMappings"]
    account.lambda_.delete_event_source_mapping(UUID=source["UUID"])

    assert [queue.name for queue in look(account.here, 60).queues if queue.muted] == ["voip"]


def test_a_network_s_commands_are_shown_among_the_queues(account: Account, toy: str) -> None:
    account.send("toy-commands", "an order")
    account.send("toy-commands-dead", "another")

    (commands,) = [queue for queue in look(account.here, 60).queues if queue.name == f"{toy}-commands"]

    assert (commands.waiting, commands.dead, commands.muted) == (1, 1, False)
