"""What raises an alarm. Each has an entry in docs/operations.md: what it means and what to do."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from aws_cdk import aws_cloudwatch as cloudwatch

from clarion.channels import CHANNELS, Calls
from clarion.decisions import EnvelopeDecision, PushDecision
from clarion.metrics import Metric, decided
from clarion.networks import network
from clarion.networks.needs import AlarmNeed, Function, Target
from infra.config import EnvironmentConfig
from infra.metrics import (
    MAXIMUM,
    MINIMUM,
    P99,
    SAMPLES,
    SUM,
    counted,
    delivered_pushes,
    of_all_functions,
    of_api,
    of_function,
    of_queue,
    of_stream,
    of_table,
)
from infra.networks import function_name, functions_of
from infra.queues import commands_queue, with_commands
from infra.tables import BY_KEY

QUIET = 100
"""Pushes in five minutes that spending is set against at least: fewer would make much of little."""
LEDGER = 2.13
"""Write units of the most expensive path to a delivered push in docs/cost.md, which is measured."""
NEWEST_LEDGER = 8.0
"""The same of a network whose pushes report the newest items."""
HOURS_OF_LATE_EVENTS = 3
"""After an outage of an hour the queue is empty sooner, unless the stream has hardly more room than is needed anyway."""
HOURS_WITHOUT_COMMAND = 3
"""EventBridge may leave one out."""
SHARDS = 256
"""Ingest's, which its tasks divide among them."""
REPORTS_A_MINUTE = 5
"""In which a task of ingest says how many it owns. It makes six; one may fall into the next minute."""
NTF_REPORTS = 4
"""Of a task of the NTF server in five minutes. It makes five; one may fall into the next minute."""
LOSS_SHOWN_MINUTES = 30
RUNS_MISSED = 4
"""Of the watch, until it counts as silent."""
TICKS_IN_FIVE_MINUTES = 3
"""Of five; the next one makes up for what is left out."""
READ_BY_MATCH = (("subscriptions", None), ("rules", BY_KEY), ("rate_limits", None))
WRITTEN_IN_CROWDS = (("push_records", None), ("rate_limits", None), ("rules", BY_KEY))
"""Tables with an index, or None. Envelopes and rules of one key reach these hundreds at a time."""


@dataclass(frozen=True)
class AlarmSpec:
    """Raised when `metric` is at `limit` or beyond for so many `periods`; `entry` is its place in the runbook.

    With `any_of` one of the `periods` is enough: it doesn't end between two attempts at what is tried again and again.
    With `below` it is raised under the limit, or when nothing is measured at all.
    """

    entry: str
    metric: cloudwatch.IMetric
    limit: float
    periods: int = 1
    subject: str = ""
    below: bool = False
    any_of: bool = False
    meaning: str = ""

    @property
    def name(self) -> str:
        return f"{self.entry}-{self.subject}" if self.subject else self.entry


def queue_ages(environment: EnvironmentConfig) -> dict[str, int]:
    """By queue, how many seconds its oldest message may wait. Android's calls wait in the queue of its other pushes.

    Those about late events are in `_on_the_lake`.
    """
    limits = environment.thresholds
    pushes = {
        channel: limits.push_age_s if CHANNELS[channel].calls is Calls.NEVER else limits.call_age_s
        for channel in environment.channels
    }
    # A message's age counts from when it was sent, whatever it was delayed by.
    commands = {
        commands_queue(name): limits.command_age_s + network(name).needs.command_delay_seconds
        for name in with_commands(environment)
    }
    return {
        "envelopes": limits.envelope_age_s,
        "pages": limits.envelope_age_s,
        **pushes,
        **commands,
        "cleanup": limits.cleanup_age_s,
        "deliveries": limits.deliveries_age_s,
    }


def functions(environment: EnvironmentConfig) -> tuple[str, ...]:
    """The names of those that no client waits for, below the deployment's prefix."""
    workers = (
        function_name(name, each)
        for name in environment.networks
        for each, _ in functions_of(name)
        if each is Function.WORKER
    )
    return ("match", "pages", *environment.channels, *workers, "cleanup", "deliveries", "late-events", "schedule")


def alarm_specs(environment: EnvironmentConfig, api_id: str) -> Iterator[AlarmSpec]:
    yield from _on_queues(environment)
    yield from _on_ingest(environment)
    yield from _on_decisions(environment)
    yield from _on_functions(environment)
    yield from _on_the_schedule(environment)
    yield from _on_tables(environment)
    yield from _on_the_api(environment, api_id)
    yield from _on_the_lake(environment)
    yield from _of_networks(environment)
    if ntf := environment.ntf_server:
        reports = counted(environment.stage, "ntf", Metric.NTF_SESSIONS_OPEN, statistic=SAMPLES)
        yield AlarmSpec("ntf-missing", reports, ntf.tasks * NTF_REPORTS, 2, below=True)
    if environment.pipeline:
        yield from _on_the_pipeline(environment)
    ledger = NEWEST_LEDGER if environment.newest_tables() else LEDGER
    yield AlarmSpec("spend-above-ledger", writes_per_push(environment), ledger * environment.thresholds.above_ledger, 3)


def _on_queues(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    """Only pushes that are of use for hours are tried for so long that a queue of them may fill up with what is in flight."""
    in_flight = environment.thresholds.in_flight
    retried = {channel for channel in environment.channels if CHANNELS[channel].has_held_queue}
    ages = queue_ages(environment)
    for queue, seconds in ages.items():
        of_this = partial(of_queue, f"{environment.prefix}{queue}")
        yield AlarmSpec("queue-old", of_this("ApproximateAgeOfOldestMessage"), seconds, 3, queue)
        if queue in retried:
            held = of_queue(f"{environment.prefix}{queue}-held", "ApproximateAgeOfOldestMessage")
            yield AlarmSpec("queue-old", held, environment.thresholds.held_age_s, 3, f"{queue}-held")
            yield AlarmSpec("queue-in-flight", of_this("ApproximateNumberOfMessagesNotVisible"), in_flight, 3, queue)
    for queue in (*ages, "late-events"):
        dead = of_queue(f"{environment.prefix}{queue}-dead", "ApproximateNumberOfMessagesVisible")
        yield AlarmSpec("dead-letters", dead, 1, 1, queue)


def _on_ingest(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    """None where no network is followed."""
    if not environment.followed_networks:
        return
    limits, count = environment.thresholds, partial(counted, environment.stage, "ingest")
    level = partial(count, statistic=MAXIMUM, minutes=1)
    for name in environment.followed_networks:
        yield from _on_nodes(environment, name)
    owned = count(Metric.SHARDS_OWNED, minutes=1)
    yield AlarmSpec("shards-unowned", owned, SHARDS * REPORTS_A_MINUTE, 2, below=True)
    yield AlarmSpec("ingest-lagging", level(Metric.INGEST_LAG), limits.ingest_lag_ms, 3)
    yield AlarmSpec("rules-behind", level(Metric.RULES_BEHIND), limits.rules_behind_ms, 3)
    yield AlarmSpec("ingest-failing", count(Metric.INTERNAL_ERRORS), 1)


def _on_nodes(environment: EnvironmentConfig, name: str) -> Iterator[AlarmSpec]:
    """Of one network: it may be cut off while the others are followed. The task at work with the fewest nodes counts."""
    count = partial(counted, environment.stage, "ingest", network=name)
    connected = count(Metric.NODES_CONNECTED, statistic=MINIMUM, minutes=1)
    yield AlarmSpec("ingest-disconnected", connected, 1, 3, name, below=True)
    if network(name).needs.nodes is None:
        return  # what it follows its users have chosen: that is away, and at fault, as they like
    if environment.ingest:
        yield AlarmSpec("nodes-missing", connected, len(environment.ingest.nodes.get(name, ())), 15, name, below=True)
    yield AlarmSpec("node-faults", count(Metric.NODE_FAULTS), environment.thresholds.node_faults, 3, name)


def _on_decisions(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    """What is tried again is counted here: SQS leaves a message that it has handed out three times out of its age.

    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
    """
    limits = environment.thresholds
    match, dispatch = (partial(counted, environment.stage, component) for component in ("match", "dispatch"))
    misconfigured, refused = decided(PushDecision.MISCONFIGURED), decided(PushDecision.REFUSED)
    gone, delayed, stale = map(decided, (PushDecision.TOKEN_GONE, PushDecision.RETRY, PushDecision.STALE))
    yield AlarmSpec("envelopes-failing", match(Metric.ENVELOPES_FAILED), limits.failed_envelopes)
    yield AlarmSpec("receivers-unreadable", match(Metric.RECEIVERS_UNREADABLE), 1)
    yield AlarmSpec("signatures-failing", match(decided(EnvelopeDecision.BAD_SIGNATURE)), limits.bad_signatures)
    # A held message is tried, and counted, every quarter of an hour.
    yield AlarmSpec("provider-misconfigured", dispatch(misconfigured), 1, 4, any_of=True)
    yield AlarmSpec("pushes-refused", dispatch(refused), limits.refused_pushes)
    yield AlarmSpec("pushes-delayed", dispatch(delayed), limits.delayed_pushes, 2)
    yield AlarmSpec("pushes-stale", dispatch(stale), limits.stale_pushes)
    yield AlarmSpec("dead-tokens", dispatch(gone, minutes=60), limits.dead_tokens_an_hour)
    yield AlarmSpec("deliveries-slow", dispatch(Metric.LATENCY, statistic=P99), limits.delivery_p99_ms, 3)


def _on_functions(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    limit = environment.thresholds.function_errors
    # All functions share what the account may run at once.
    yield AlarmSpec("function-throttled", of_all_functions("Throttles"), 1)
    for function in functions(environment):
        failing = of_function(f"{environment.prefix}{function}", "Errors")
        yield AlarmSpec("function-failing", failing, limit, 1, function)


def _on_the_schedule(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    count = partial(counted, environment.stage, "schedule")
    calls = of_function(f"{environment.prefix}schedule", "Invocations")
    yield AlarmSpec("ticks-missing", calls, TICKS_IN_FIVE_MINUTES, 2, below=True)
    yield AlarmSpec("schedule-failing", count(Metric.WAKE_UPS_UNSENT), 1, 1, "wake-ups")
    yield AlarmSpec("schedule-failing", count(Metric.EXPIRIES_FAILED), 1, 1, "expiries")


def _on_tables(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    """An index is throttled by itself, and a table's metrics leave it out.

    What any other table refuses fails a request or a message, which has an alarm.
    """
    for event, tables in (("Read", READ_BY_MATCH), ("Write", WRITTEN_IN_CROWDS)):
        for table, index in tables:
            throttled = of_table(f"{environment.prefix}{table}", f"{event}ThrottleEvents", index=index)
            subject = f"{table}-{index}" if index else table
            yield AlarmSpec("table-throttled", throttled, 1, 1, f"{subject}-{event.lower()}s")


def _on_the_api(environment: EnvironmentConfig, api_id: str) -> Iterator[AlarmSpec]:
    limits = environment.thresholds
    yield AlarmSpec("api-failing", failed_requests(environment, api_id), limits.api_errors)
    yield AlarmSpec("api-slow", of_api(api_id, "Latency", P99), limits.api_p99_ms, 3)


def _on_the_lake(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    late = of_stream(f"{environment.prefix}events", "DeliveryToS3.DataFreshness")
    yield AlarmSpec("lake-late", late, environment.thresholds.lake_delay_s)
    of_late_events = partial(of_queue, f"{environment.prefix}late-events", minutes=5)
    yield AlarmSpec("events-late", of_late_events("NumberOfMessagesSent", statistic=SUM), 1, 3)
    # SQS leaves what it has handed out three times out of the age; what comes back is in flight most of its time.
    tried = of_late_events("ApproximateNumberOfMessagesNotVisible")
    yield AlarmSpec("events-late", tried, 1, HOURS_OF_LATE_EVENTS * 12, "waiting")
    emitting = [
        name for name in environment.networks if any(send.target is Target.EVENTS for send in network(name).needs.sends)
    ]
    cleanup = ["cleanup"] if environment.has_additive_networks else []
    for component in ("match", "dispatch", "schedule", "api", *cleanup, *emitting):
        yield AlarmSpec("events-lost", counted(environment.stage, component, Metric.EVENTS_LOST), 1, 1, component)


def _of_networks(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    """Those that they ask for themselves, and one for the command that comes every hour."""
    for name in environment.networks:
        if network(name).needs.hourly:
            sent = of_queue(
                f"{environment.prefix}{commands_queue(name)}", "NumberOfMessagesSent", statistic=SUM, minutes=60
            )
            yield AlarmSpec("hourly-missing", sent, 1, HOURS_WITHOUT_COMMAND, name, below=True)
        for alarm in network(name).needs.alarms:
            metric = counted(environment.stage, alarm.service or name, alarm.metric)
            yield AlarmSpec(alarm_entry(name, alarm), metric, alarm.threshold, meaning=alarm.meaning)


def alarm_entry(network_name: str, alarm: AlarmNeed) -> str:
    return f"{network_name}-{alarm.metric.replace('_', '-')}"


def _on_the_pipeline(environment: EnvironmentConfig) -> Iterator[AlarmSpec]:
    """The queues are of `infra.pipeline`, whose stack sends a run's end to them."""
    dead, done = f"{environment.prefix}pipeline-dead", f"{environment.prefix}pipeline-done"
    yield AlarmSpec("pipeline-failed", of_queue(dead, "ApproximateNumberOfMessagesVisible"), 1)
    ended = of_queue(done, "NumberOfMessagesSent", statistic=SUM, minutes=60)
    yield AlarmSpec("pipeline-silent", ended, 1, environment.thresholds.pipeline_silence_h, below=True)
    if environment.pipeline and (minutes := environment.pipeline.watch_minutes):
        lost = partial(counted, environment.stage, "watch", Metric.LOSSES_FOUND, minutes=1)
        yield AlarmSpec("losses-found", lost(statistic=MAXIMUM), 1, LOSS_SHOWN_MINUTES, any_of=True)
        yield AlarmSpec("watch-silent", lost(statistic=SAMPLES), 1, RUNS_MISSED * minutes, below=True)


def failed_requests(environment: EnvironmentConfig, api_id: str) -> cloudwatch.MathExpression:
    """What the functions behind the API say they could not do, and what API Gateway answered with 5xx without them.

    A client can have a function answer with 5xx, but neither of these.
    """
    routers = (name for name in environment.networks for each, _ in functions_of(name) if each is Function.ROUTER)
    names = ("api", *routers)
    failed = {f"failed_{name}": counted(environment.stage, name, Metric.REQUESTS_FAILED) for name in names}
    answered = {f"answered_{name}": counted(environment.stage, name, Metric.ANSWERED_5XX) for name in names}
    without = f"FILL(all, 0) - {' - '.join(f'FILL({name}, 0)' for name in answered)}"
    return cloudwatch.MathExpression(
        expression=f"{' + '.join(f'FILL({name}, 0)' for name in failed)} + IF({without} > 0, {without}, 0)",
        label="failed requests",
        using_metrics={**failed, **answered, "all": of_api(api_id, "5xx")},
    )


def writes_per_push(environment: EnvironmentConfig) -> cloudwatch.MathExpression:
    """Write units of match's tables for each push that reached its device: the ledger's largest item, measured live.

    What is not measured is nothing: with no push delivered at all, all that is written is spent in vain.
    """
    newest = environment.newest_tables()
    used = {
        table: of_table(f"{environment.prefix}{table}", "ConsumedWriteCapacityUnits")
        for table in ("push_records", "rate_limits", *newest)
    }
    pushed = {"delivered": delivered_pushes(environment.stage)}
    if newest:
        pushed["coalesced"] = counted(environment.stage, "dispatch", decided(PushDecision.COALESCED))
    writes, pushes = (" + ".join(f"FILL({name}, 0)" for name in names) for names in (used, pushed))
    return cloudwatch.MathExpression(
        expression=f"({writes}) / IF({pushes} > {QUIET}, {pushes}, {QUIET})",
        label="write units for each push",
        using_metrics={**used, **pushed},
    )
