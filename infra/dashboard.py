"""One page that shows the funnel from statements to delivered pushes, and what holds it up."""

from functools import partial

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from clarion.decisions import NotificationDecision, PushDecision, EnvelopeDecision
from clarion.metrics import Decision, Metric, decided
from infra.alarms import CONSUMERS, Alarms, writes_per_push
from infra.config import Environment
from infra.metrics import MAXIMUM, P99, counted, of_api, of_function, of_queue

HALF, WHOLE = 12, 24


class Dashboard(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, api_id: str, alarms: Alarms
    ) -> None:
        super().__init__(scope, construct_id)
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"{environment.prefix}overview",
            default_interval=Duration.hours(3),
            widgets=[
                [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms.alarms), width=WHOLE)],
                [_funnel(environment)],
                [_statements(environment), _ingest(environment)],
                [
                    _decisions(environment, "Notifications", "match", *NotificationDecision),
                    _decisions(environment, "Pushes", "dispatch", *PushDecision),
                ],
                [_queues(environment), _latency(environment)],
                [_functions(environment), _api(api_id)],
                [_graph("Write units for each push", writes_per_push(environment))],
            ],
        )


def _funnel(environment: Environment) -> cloudwatch.IWidget:
    steps = {
        Metric.ENVELOPES_RECEIVED: "ingest",
        Metric.ENVELOPES_FORWARDED: "ingest",
        decided(EnvelopeDecision.MATCHED): "match",
        decided(NotificationDecision.QUEUED): "match",
        decided(PushDecision.DELIVERED): "dispatch",
    }
    metrics = [counted(environment.stage, room, name) for name, room in steps.items()]
    return cloudwatch.SingleValueWidget(
        title="From statements to pushes", metrics=list(metrics), set_period_to_time_range=True, width=WHOLE, height=4
    )


def _decisions(environment: Environment, title: str, room: str, *decisions: Decision) -> cloudwatch.GraphWidget:
    return _graph(title, *(counted(environment.stage, room, decided(decision)) for decision in decisions))


def _statements(environment: Environment) -> cloudwatch.GraphWidget:
    faults = (Metric.ENVELOPES_FAILED, Metric.RECEIVERS_UNREADABLE)
    names = (*map(decided, EnvelopeDecision), *faults)
    return _graph("Statements", *(counted(environment.stage, "match", name) for name in names))


def _ingest(environment: Environment) -> cloudwatch.GraphWidget:
    told = partial(counted, environment.stage, "ingest")
    statements = (Metric.ENVELOPES_RECEIVED, Metric.ENVELOPES_FORWARDED, Metric.ENVELOPES_SKIPPED)
    counts = (*statements, Metric.SECOND_LOOKS, Metric.NODE_FAULTS)
    gauges = (Metric.NODES_CONNECTED, Metric.LEADERS, Metric.INGEST_LAG, Metric.RULES_BEHIND)
    levels = (told(name, statistic=MAXIMUM) for name in gauges)
    return _graph("Ingest", *(told(name) for name in counts), *levels)


def _queues(environment: Environment) -> cloudwatch.GraphWidget:
    names = ("statements", "apns", "voip", "fcm", "cleanup")
    ages = (of_queue(f"{environment.prefix}{name}", "ApproximateAgeOfOldestMessage") for name in names)
    return _graph("Age of the oldest message, seconds", *ages)


def _latency(environment: Environment) -> cloudwatch.GraphWidget:
    told = partial(counted, environment.stage, "dispatch", Metric.LATENCY)
    median, worst = (told(statistic=statistic) for statistic in ("p50", P99))
    return _graph("From observed to delivered, milliseconds", median, worst)


def _functions(environment: Environment) -> cloudwatch.GraphWidget:
    names = [f"{environment.prefix}{name}" for name in (*CONSUMERS, "api", "authorizer")]
    faults = (of_function(name, fault) for name in names for fault in ("Errors", "Throttles"))
    return _graph("Functions failing or throttled", *faults)


def _api(api_id: str) -> cloudwatch.GraphWidget:
    return _graph("API answers", *(of_api(api_id, name) for name in ("Count", "4xx", "5xx")))


def _graph(title: str, *metrics: cloudwatch.IMetric) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=HALF)
