"""The alarms and where they are heard. Each has an entry in docs/operations.md: what it means and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from clarion.decisions import PushDecision, EnvelopeDecision
from clarion.metrics import Metric, decided
from infra.config import Environment
from infra.metrics import MAXIMUM, P99, SUM, counted, of_api, of_function, of_queue, of_stream, of_table
from infra.tables import BY_CLIENT, BY_SENDER_TOPIC

RUNBOOK = "docs/operations.md"
CONSUMERS = ("match", "apns", "voip", "fcm", "cleanup")
TABLES = ("subscriptions", "tokens", "rules", "push_records", "rate_limits", "quotas", "leases")
INDEXES = {"subscriptions": BY_CLIENT, "rules": BY_SENDER_TOPIC}
QUIET = 100
"""Pushes in five minutes that spending is set against at least: fewer would make much of little."""
LEDGER = 2.13
"""Write units of the dearest path to a delivered push in docs/cost.md, which is measured."""


@dataclass(frozen=True)
class Watch:
    """Goes off when `metric` is at `limit` or beyond for so many `periods`; `entry` is its place in the runbook.

    With `any_of` one of the `periods` is enough: it doesn't end between two attempts at what is tried again and again.
    With `below` it goes off under the limit, or when nothing is told at all.
    """

    entry: str
    metric: cloudwatch.IMetric
    limit: float
    periods: int = 1
    subject: str = ""
    below: bool = False
    any_of: bool = False

    @property
    def name(self) -> str:
        return f"{self.entry}-{self.subject}" if self.subject else self.entry


class Alarms(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, api_id: str, key: kms.Key
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self.topic = self._topic(key)
        self.alarms = [self._alarm(watch) for watch in watches(environment, api_id)]

    def _topic(self, key: kms.Key) -> sns.Topic:
        """CloudWatch itself has to be let in, to the topic and to its key.

        The policy that asks for TLS takes the place of the topic's own, which would let in the whole account.
        """
        name = f"{self._environment.prefix}alarms"
        topic = sns.Topic(self, "Topic", topic_name=name, master_key=key, enforce_ssl=True)
        topic.add_to_resource_policy(_cloudwatch(["sns:Publish"], topic.topic_arn))
        key.add_to_resource_policy(_cloudwatch(["kms:Decrypt", "kms:GenerateDataKey"], "*"))
        if self._environment.alarm_email:
            topic.add_subscription(subscriptions.EmailSubscription(self._environment.alarm_email))
        return topic

    def _alarm(self, watch: Watch) -> cloudwatch.Alarm:
        more, less = (
            cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        )
        missing = cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            watch.name,
            alarm_name=f"{self._environment.prefix}{watch.name}",
            alarm_description=f"What it means and what to do: {RUNBOOK}#{watch.entry}",
            metric=watch.metric,
            threshold=watch.limit,
            evaluation_periods=watch.periods,
            datapoints_to_alarm=1 if watch.any_of else None,
            comparison_operator=less if watch.below else more,
            treat_missing_data=missing.BREACHING if watch.below else missing.NOT_BREACHING,
        )
        action = actions.SnsAction(self.topic)
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        return alarm


def _cloudwatch(actions: list[str], resource: str) -> iam.PolicyStatement:
    """Lets the alarms of this account do `actions`."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=actions,
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )


def watches(environment: Environment, api_id: str) -> Iterator[Watch]:
    yield from _on_queues(environment)
    yield from _on_ingest(environment)
    yield from _on_decisions(environment)
    yield from _on_functions(environment)
    yield from _on_tables(environment)
    yield from _on_the_api(environment, api_id)
    yield from _on_the_lake(environment)
    if environment.pipeline:
        yield from _on_the_pipeline(environment)
    yield Watch("spend-above-ledger", writes_per_push(environment), LEDGER * environment.limits.above_ledger, 3)


def _on_queues(environment: Environment) -> Iterator[Watch]:
    """Android's calls wait in the queue of its other pushes."""
    limits = environment.limits
    ages = {
        "statements": limits.statement_age_s,
        "apns": limits.push_age_s,
        "voip": limits.call_age_s,
        "fcm": limits.call_age_s,
        "cleanup": limits.cleanup_age_s,
    }
    for queue, seconds in ages.items():
        name = f"{environment.prefix}{queue}"
        yield Watch("queue-old", of_queue(name, "ApproximateAgeOfOldestMessage"), seconds, 3, queue)
        yield Watch(
            "queue-in-flight", of_queue(name, "ApproximateNumberOfMessagesNotVisible"), limits.in_flight, 3, queue
        )
        yield Watch("dead-letters", of_queue(f"{name}-dead", "ApproximateNumberOfMessagesVisible"), 1, 1, queue)


def _on_ingest(environment: Environment) -> Iterator[Watch]:
    limits, told = environment.limits, partial(counted, environment.stage, "ingest")
    level = partial(told, statistic=MAXIMUM, minutes=1)
    connected = level(Metric.NODES_CONNECTED)
    yield Watch("ingest-disconnected", connected, 1, 3, below=True)
    if environment.ingest:
        yield Watch("nodes-missing", connected, len(environment.ingest.node_urls), 15, below=True)
    yield Watch("ingest-leaderless", level(Metric.LEADERS), 1, 2, below=True)
    yield Watch("ingest-lagging", level(Metric.INGEST_LAG), limits.ingest_lag_ms, 3)
    yield Watch("rules-behind", level(Metric.RULES_BEHIND), limits.rules_behind_ms, 3)
    yield Watch("node-faults", told(Metric.NODE_FAULTS), limits.node_faults, 3)
    yield Watch("ingest-failing", told(Metric.INTERNAL_ERRORS), 1)


def _on_decisions(environment: Environment) -> Iterator[Watch]:
    """What is tried again is counted here: SQS leaves a message that it has handed out three times out of its age.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    limits = environment.limits
    match, dispatch = (partial(counted, environment.stage, room) for room in ("match", "dispatch"))
    misconfigured, refused = decided(PushDecision.MISCONFIGURED), decided(PushDecision.REFUSED)
    gone, delayed, stale = map(decided, (PushDecision.TOKEN_GONE, PushDecision.RETRY, PushDecision.STALE))
    yield Watch("statements-failing", match(Metric.ENVELOPES_FAILED), limits.failed_statements, 2)
    yield Watch("receivers-unreadable", match(Metric.RECEIVERS_UNREADABLE), 1)
    yield Watch("signatures-failing", match(decided(EnvelopeDecision.BAD_SIGNATURE)), limits.bad_signatures)
    # A held message is tried, and counted, every quarter of an hour.
    yield Watch("provider-misconfigured", dispatch(misconfigured), 1, 4, any_of=True)
    yield Watch("pushes-refused", dispatch(refused), limits.refused_pushes)
    yield Watch("pushes-delayed", dispatch(delayed), limits.delayed_pushes, 2)
    yield Watch("pushes-stale", dispatch(stale), limits.stale_pushes)
    yield Watch("dead-tokens", dispatch(gone, minutes=60), limits.dead_tokens_an_hour)
    yield Watch("deliveries-slow", dispatch(Metric.LATENCY, statistic=P99), limits.delivery_p99_ms, 3)


def _on_functions(environment: Environment) -> Iterator[Watch]:
    limit = environment.limits.function_errors
    for function in (*CONSUMERS, "api", "authorizer"):
        name = f"{environment.prefix}{function}"
        yield Watch("function-throttled", of_function(name, "Throttles"), 1, 1, function)
        if function == "authorizer":
            yield Watch("authorizer-failing", of_function(name, "Errors"), limit)
        else:
            yield Watch("function-failing", of_function(name, "Errors"), limit, 1, function)
    unavailable = counted(environment.stage, "authorizer", Metric.KEYS_UNAVAILABLE)
    yield Watch("authorizer-failing", unavailable, limit, 1, "keys")


def _on_tables(environment: Environment) -> Iterator[Watch]:
    """An index is throttled by itself, and a table's metrics don't tell of it."""
    for table, index in [*((table, None) for table in TABLES), *INDEXES.items()]:
        told = partial(of_table, f"{environment.prefix}{table}", index=index)
        subject = f"{table}-{index}" if index else table
        yield Watch("table-throttled", told("ReadThrottleEvents"), 1, 1, f"{subject}-reads")
        yield Watch("table-throttled", told("WriteThrottleEvents"), 1, 1, f"{subject}-writes")


def _on_the_api(environment: Environment, api_id: str) -> Iterator[Watch]:
    limits = environment.limits
    yield Watch("api-failing", of_api(api_id, "5xx"), limits.api_errors)
    yield Watch("api-slow", of_api(api_id, "Latency", P99), limits.api_p99_ms, 3)


def _on_the_lake(environment: Environment) -> Iterator[Watch]:
    late = of_stream(f"{environment.prefix}events", "DeliveryToS3.DataFreshness")
    yield Watch("lake-late", late, environment.limits.lake_delay_s)
    for room in ("match", "dispatch", "api"):
        yield Watch("events-lost", counted(environment.stage, room, Metric.EVENTS_LOST), 1, 1, room)


def _on_the_pipeline(environment: Environment) -> Iterator[Watch]:
    """The queues are of `infra.pipeline`, whose stack tells of a run's end by them."""
    dead, done = f"{environment.prefix}pipeline-dead", f"{environment.prefix}pipeline-done"
    yield Watch("pipeline-failed", of_queue(dead, "ApproximateNumberOfMessagesVisible"), 1)
    ended = of_queue(done, "NumberOfMessagesSent", statistic=SUM, minutes=60)
    yield Watch("pipeline-silent", ended, 1, environment.limits.pipeline_silence_h, below=True)


def writes_per_push(environment: Environment) -> cloudwatch.MathExpression:
    """Write units of match's tables for each delivered push: the ledger's largest item, measured live.

    What is not told is nothing: with no push delivered at all, all that is written is spent in vain.
    """
    used = {
        table: of_table(f"{environment.prefix}{table}", "ConsumedWriteCapacityUnits")
        for table in ("push_records", "rate_limits")
    }
    delivered = counted(environment.stage, "dispatch", decided(PushDecision.DELIVERED))
    writes = " + ".join(f"FILL({name}, 0)" for name in used)
    pushes = "FILL(delivered, 0)"
    return cloudwatch.MathExpression(
        expression=f"({writes}) / IF({pushes} > {QUIET}, {pushes}, {QUIET})",
        label="write units for each push",
        using_metrics={**used, "delivered": delivered},
    )
