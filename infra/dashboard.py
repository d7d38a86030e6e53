"""One page that shows the funnel from statements to delivered pushes, and what holds it up."""

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from clarion.decisions import NotificationDecision, PushDecision, StatementDecision
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
                [_funnel()],
                [_decisions("Statements", "match", *StatementDecision), _ingest()],
                [
                    _decisions("Notifications", "match", *NotificationDecision),
                    _decisions("Pushes", "dispatch", *PushDecision),
                ],
                [_queues(environment), _latency()],
                [_functions(environment), _api(api_id)],
                [_graph("Write units for each push", writes_per_push(environment))],
            ],
        )


def _funnel() -> cloudwatch.IWidget:
    stages = [
        counted(Metric.STATEMENTS_RECEIVED, "ingest"),
        counted(Metric.STATEMENTS_FORWARDED, "ingest"),
        counted(decided(StatementDecision.MATCHED), "match"),
        counted(decided(NotificationDecision.QUEUED), "match"),
        counted(decided(PushDecision.DELIVERED), "dispatch"),
    ]
    return cloudwatch.SingleValueWidget(
        title="From statements to pushes", metrics=list(stages), set_period_to_time_range=True, width=WHOLE, height=4
    )


def _decisions(title: str, service: str, *decisions: Decision) -> cloudwatch.GraphWidget:
    return _graph(title, *(counted(decided(decision), service) for decision in decisions))


def _ingest() -> cloudwatch.GraphWidget:
    counts = (Metric.STATEMENTS_RECEIVED, Metric.STATEMENTS_FORWARDED, Metric.STATEMENTS_SKIPPED, Metric.NODE_FAULTS)
    gauges = (Metric.NODES_CONNECTED, Metric.LEADERS, Metric.INGEST_LAG, Metric.RULES_BEHIND)
    levels = (counted(name, "ingest", statistic=MAXIMUM) for name in gauges)
    return _graph("Ingest", *(counted(name, "ingest") for name in counts), *levels)


def _queues(environment: Environment) -> cloudwatch.GraphWidget:
    names = ("statements", "apns", "voip", "fcm")
    ages = (of_queue(f"{environment.prefix}{name}", "ApproximateAgeOfOldestMessage") for name in names)
    return _graph("Age of the oldest message, seconds", *ages)


def _latency() -> cloudwatch.GraphWidget:
    median, worst = (counted(Metric.LATENCY, "dispatch", statistic=statistic) for statistic in ("p50", P99))
    return _graph("From observed to delivered, milliseconds", median, worst)


def _functions(environment: Environment) -> cloudwatch.GraphWidget:
    names = [f"{environment.prefix}{name}" for name in (*CONSUMERS, "api", "authorizer")]
    faults = (of_function(name, fault) for name in names for fault in ("Errors", "Throttles"))
    return _graph("Functions failing or throttled", *faults)


def _api(api_id: str) -> cloudwatch.GraphWidget:
    return _graph("API answers", *(of_api(api_id, name) for name in ("Count", "4xx", "5xx")))


def _graph(title: str, *metrics: cloudwatch.IMetric) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=HALF)
