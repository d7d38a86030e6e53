"""What one Lambda sandbox keeps from one invocation to the next, and how it takes a batch."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import boto3
from aws_lambda_powertools import Logger, Metrics
from botocore.config import Config
from pydantic import ValidationError

from clarion import tables
from clarion.events import EventLog
from clarion.messages import StatementMessage
from clarion.metrics import NAMESPACE
from match.admission import Admission
from match.batch import Case, Matcher
from match.outbox import Outbox
from match.report import Report
from match.settings import MatchSettings
from match.source import Source

SERVICE = "match"
WORKERS = 16


def now() -> int:
    """UNIX milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Room:
    matcher: Matcher
    report: Report
    clock: Callable[[], int] = now

    @classmethod
    def open(cls, settings: MatchSettings, clock: Callable[[], int] = now) -> Self:
        tables.bind(settings.table_prefix)
        matcher = Matcher(
            source=Source(cache(lambda: boto3.client("s3")), settings.oversize_bucket),
            admission=Admission(settings.limit, clock),
            outbox=Outbox(boto3.client("sqs", config=Config(max_pool_connections=WORKERS)), settings.push_queues),
            pool=ThreadPoolExecutor(WORKERS),
            clock=clock,
        )
        report = Report(
            events=EventLog(boto3.client("firehose"), settings.events_stream),
            metrics=Metrics(namespace=NAMESPACE, service=SERVICE),
            logger=Logger(service=SERVICE),
        )
        return cls(matcher, report, clock)

    def take(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Decide on a batch of SQS records; returns the ids of the messages that are to come again."""
        cases, poisoned = self._opened(records)
        self.matcher.decide(cases)
        at = self.clock()
        for case in cases:
            self.report.case(case, at)
        self.report.close()
        return [*poisoned, *(case.message_id for case in cases if case.fault)]

    def _opened(self, records: Sequence[Mapping[str, Any]]) -> tuple[list[Case], list[str]]:
        cases, poisoned = [], []
        for record in records:
            try:
                cases.append(Case(record["messageId"], StatementMessage.model_validate_json(record["body"])))
            except ValidationError as flaw:
                poisoned.append(record["messageId"])
                self.report.poison(record["messageId"], _reason(flaw))
        return cases, poisoned


def _reason(flaw: ValidationError) -> str:
    """Which field is wrong, without its value."""
    return "; ".join(
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in flaw.errors(include_input=False)
    )
