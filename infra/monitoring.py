"""The alarms with the topic that they go to, and the dashboard: the funnel from envelopes to delivered pushes."""

from collections.abc import Iterator
from functools import partial
from itertools import batched

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion.metrics import Decision, Metric, decided
from clarion.networks import SIMPLEX, network
from infra.alarms import AlarmSpec, alarm_specs, writes_per_push
from infra.config import EnvironmentConfig
from infra.metrics import (
    MAXIMUM,
    MINIMUM,
    P99,
    SUM,
    counted,
    delivered_pushes,
    of_all_functions,
    of_api,
    of_queue,
    of_stream,
)
from infra.permissions import for_alarms

RUNBOOK = "docs/operations.md"
HALF, WHOLE = 12, 24
_ELSEWHERE = {PushDecision.DELIVERED, PushDecision.RECEIVED, PushDecision.COALESCED}
"""Counted by latencies; the receiver's word; what no push was sent for: the dashboard has no more metrics than are free."""
_OF_DISPATCH = [decision for decision in PushDecision if decision not in _ELSEWHERE]
ALARMS_OF_A_WIDGET = 100
"""https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html"""


class Alarms(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, api_id: str, key: kms.IKey
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self.topic = self._topic(key)
        self.by_name = {
            spec.name: add_alarm(self, spec, environment=environment, topic=self.topic)
            for spec in alarm_specs(environment, api_id)
        }

    def _topic(self, key: kms.IKey) -> sns.Topic:
        """CloudWatch itself needs access to the topic, and to its key (`infra.data`).

        The policy that asks for TLS takes the place of the topic's own, which would admit the whole account.
        """
        name = f"{self._environment.prefix}alarms"
        topic = sns.Topic(self, "Topic", topic_name=name, master_key=key, enforce_ssl=self._environment.tls_only)
        topic.add_to_resource_policy(for_alarms("sns: Publish", topic.topic_arn))
        if self._environment.alarm_email:
            topic.add_subscription(subscriptions.EmailSubscription(self._environment.alarm_email))
        return topic


def add_alarm(
    scope: Construct, spec: AlarmSpec, *, environment: EnvironmentConfig, topic: sns.ITopic
) -> cloudwatch.Alarm:
    more, less = (
        cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
    )
    missing = cloudwatch.TreatMissingData
    alarm = cloudwatch.Alarm(
        scope,
        spec.name,
        alarm_name=f"{environment.prefix}{spec.name}",
        alarm_description=f"{spec.meaning} What to do: {RUNBOOK}#{spec.entry}".lstrip(),
        metric=spec.metric,
        threshold=spec.limit,
        evaluation_periods=spec.periods,
        datapoints_to_alarm=1 if spec.any_of else None,
        comparison_operator=less if spec.below else more,
        treat_missing_data=missing.BREACHING if spec.below else missing.NOT_BREACHING,
    )
    action = actions.SnsAction(topic)
    alarm.add_alarm_action(action)
    alarm.add_ok_action(action)
    return alarm


class Dashboard(Construct):
    """With production's networks and channels it shows no more metrics than CloudWatch shows for nothing.

    A dashboard's name is the account's, in all regions.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: EnvironmentConfig, api_id: str, alarms: Alarms
    ) -> None:
        super().__init__(scope, construct_id)
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{environment.prefix}overview-{environment.region}",
            default_interval=Duration.hours(3),
            widgets=[
                *_status(alarms),
                [_funnel(environment)],
                [_envelopes(environment), *_ingest(environment)],
                [
                    _decisions(environment, "Notifications", "match", *NotificationDecision),
                    _pushes(environment),
                ],
                [_queues(environment), _latency(environment)],
                [_schedule(environment), _lake(environment)],
                [_functions(), _api(api_id)],
                [*_nodes(environment), _graph("Write units for each push", writes_per_push(environment))],
            ],
        )


def _status(alarms: Alarms) -> Iterator[list[cloudwatch.IWidget]]:
    for some in batched(alarms.by_name.values(), ALARMS_OF_A_WIDGET, strict=False):
        yield [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(some), width=WHOLE)]


def _funnel(environment: EnvironmentConfig) -> cloudwatch.IWidget:
    steps = {
        Metric.ENVELOPES_RECEIVED: "ingest",
        Metric.ENVELOPES_FORWARDED: "ingest",
        decided(EnvelopeDecision.MATCHED): "match",
        decided(NotificationDecision.QUEUED): "match",
    }
    metrics = [counted(environment.stage, component, name) for name, component in steps.items()]
    metrics.append(delivered_pushes(environment.stage))
    return cloudwatch.SingleValueWidget(
        title="From envelopes to pushes", metrics=list(metrics), set_period_to_time_range=True, width=WHOLE, height=4
    )


def _decisions(
    environment: EnvironmentConfig, title: str, component: str, *decisions: Decision
) -> cloudwatch.GraphWidget:
    return _graph(title, *(counted(environment.stage, component, decided(decision)) for decision in decisions))


def _pushes(environment: EnvironmentConfig) -> cloudwatch.GraphWidget:
    others = (counted(environment.stage, "dispatch", decided(decision)) for decision in _OF_DISPATCH)
    return _graph("Pushes", delivered_pushes(environment.stage), *others)


def _envelopes(environment: EnvironmentConfig) -> cloudwatch.GraphWidget:
    faults = (Metric.ENVELOPES_FAILED, Metric.RECEIVERS_UNREADABLE)
    names = (*map(decided, EnvelopeDecision), *faults)
    return _graph("Envelopes", *(counted(environment.stage, "match", name) for name in names))


def _ingest(environment: EnvironmentConfig) -> Iterator[cloudwatch.GraphWidget]:
    """Nothing where no network is followed."""
    if not environment.followed_networks:
        return
    measure = partial(counted, environment.stage, "ingest")
    counts = (Metric.ENVELOPES_RECEIVED, Metric.ENVELOPES_FORWARDED)
    gauges = (Metric.SHARDS_OWNED, Metric.INGEST_LAG, Metric.RULES_BEHIND)
    levels = (measure(name, statistic=MAXIMUM) for name in gauges)
    yield _graph("Ingest", *(measure(name) for name in counts), *levels)


def _nodes(environment: EnvironmentConfig) -> Iterator[cloudwatch.GraphWidget]:
    """By network; nothing where none is followed."""
    if not environment.followed_networks:
        return
    measure = partial(counted, environment.stage, "ingest")
    names = [name for name in environment.followed_networks if network(name).needs.nodes]
    connected = (measure(Metric.NODES_CONNECTED, network=name, statistic=MINIMUM) for name in names)
    faults = (measure(Metric.NODE_FAULTS, network=name) for name in names)
    # Of SimpleX, whose servers nobody has named here. Its tasks divide them.
    servers = (Metric.SMP_SERVERS_REACHED, Metric.SMP_SERVERS_UNREACHED) if SIMPLEX in environment.networks else ()
    yield _graph("Nodes", *connected, *faults, *(measure(name, statistic=MAXIMUM) for name in servers))


def _queues(environment: EnvironmentConfig) -> cloudwatch.GraphWidget:
    """Of those that pushes go through."""
    names = (f"{environment.prefix}{name}" for name in ("envelopes", "pages", *environment.channels))
    ages = (of_queue(name, "ApproximateAgeOfOldestMessage") for name in names)
    return _graph("Age of the oldest message, seconds", *ages)


def _latency(environment: EnvironmentConfig) -> cloudwatch.GraphWidget:
    measure = partial(counted, environment.stage, "dispatch", Metric.LATENCY)
    median, worst = (measure(statistic=statistic) for statistic in ("p50", P99))
    return _graph("From observed to delivered, milliseconds", median, worst)


def _schedule(environment: EnvironmentConfig) -> cloudwatch.GraphWidget:
    names = (Metric.TICKS_MISSED, Metric.WAKE_UPS_SENT, Metric.WAKE_UPS_UNSENT)
    expiries = (Metric.SUBSCRIPTIONS_EXPIRED, Metric.EXPIRIES_FAILED)
    return _graph("Schedule", *(counted(environment.stage, "schedule", name) for name in (*names, *expiries)))


def _lake(environment: EnvironmentConfig) -> cloudwatch.GraphWidget:
    """What Firehose did not take at once, and how long it holds what it took, in seconds."""
    late = f"{environment.prefix}late-events"
    waiting = of_queue(late, "ApproximateNumberOfMessagesVisible")
    held = of_stream(f"{environment.prefix}events", "DeliveryToS3.DataFreshness")
    return _graph("Late events", of_queue(late, "NumberOfMessagesSent", statistic=SUM), waiting, held)


def _functions() -> cloudwatch.GraphWidget:
    """All of the account's: CloudWatch has a dashboard of its own that shows each."""
    return _graph("Functions failing or throttled", *map(of_all_functions, ("Errors", "Throttles")))


def _api(api_id: str) -> cloudwatch.GraphWidget:
    return _graph("API answers", *(of_api(api_id, name) for name in ("Count", "4xx", "5xx")))


def _graph(title: str, *metrics: cloudwatch.IMetric) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=HALF)
