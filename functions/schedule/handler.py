"""The Lambda that EventBridge calls every minute; `time` of the event names the minute."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import Json

from clarion import aws, tables
from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.event_log import EventLog, EventWriter
from clarion.metrics import Metric, flush, metrics_of
from clarion.settings import EventSettings
from clarion.wake_ups import due_slots
from schedule.expiries import Expiries
from schedule.periods import examined_at, periods_in_use, remove_if_unused
from schedule.ticks import begin
from schedule.waking import THREADS, WakeUps

SERVICE = "schedule"
CATCH_UP_MINUTES = 5
"""An app that was to be woken earlier is woken when its next minute comes: nobody waits for an old wake-up."""
SPARE_SECONDS = 30
"""What is under way when the time is up may take so long: two requests, of two attempts each."""


class ScheduleSettings(EventSettings):
    """`held_queues` are those of the channels that take wake-ups, as far as they are deployed."""

    table_prefix: str
    held_queues: Json[Mapping[Channel, str]]
    cleanup_queue_url: str


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Whatever AWS refuses ends the call, which Lambda then makes again."""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    _schedule().run(minute_of(event), until)


def minute_of(event: Mapping[str, Any]) -> int:
    """Counted from the epoch. https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-run-lambda-schedule.html"""
    return int(datetime.fromisoformat(event["time"]).timestamp()) // 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    wake_ups: WakeUps
    expiries: Expiries
    metrics: EphemeralMetrics

    def run(self, at: int, until: float) -> None:
        """All that is due in the minute `at`; `until` is as in `WakeUps.run`."""
        periods = periods_in_use()
        after = begin(at)
        self._count(Metric.TICKS_MISSED, at - after - 1)
        try:
            self._wake(periods, after, at, until)
            if at // 60 > after // 60:
                self._expire(after, at, until)
            if (period := examined_at(at)) in periods and time.monotonic() < until:
                remove_if_unused(period, at)
        finally:
            flush(self.metrics)

    def _wake(self, periods: Sequence[int], after: int, at: int, until: float) -> None:
        report = self.wake_ups.run(due_slots(periods, max(after, at - CATCH_UP_MINUTES), at), until)
        self._count(Metric.WAKE_UPS_SENT, report.sent)
        self._count(Metric.WAKE_UPS_UNSENT, report.unsent)

    def _expire(self, after: int, at: int, until: float) -> None:
        report = self.expiries.run(after, at, until)
        self._count(Metric.SUBSCRIPTIONS_EXPIRED, report.ended)
        self._count(Metric.EXPIRIES_FAILED, report.failed)
        self._count(Metric.EVENTS_LOST, self.expiries.events.flush())

    def _count(self, metric: Metric, count: int) -> None:
        """CloudWatch bills a metric for each hour in which it is recorded."""
        if count:
            self.metrics.add_metric(metric, MetricUnit.Count, count)


@cache
def _schedule() -> Schedule:
    settings = ScheduleSettings.from_environment()
    session = tables.bind(settings.table_prefix, pool=THREADS).session
    sqs = aws.sqs(session, pool=THREADS)
    return Schedule(
        wake_ups=WakeUps(sqs=sqs, held_queues=settings.held_queues, executor=ThreadPoolExecutor(THREADS)),
        expiries=Expiries(
            cleanup=CleanupQueue(sqs, settings.cleanup_queue_url),
            events=EventLog(EventWriter(aws.firehose(session), sqs, settings)),
        ),
        metrics=metrics_of(SERVICE, settings.stage),
    )
