"""What one Lambda sandbox keeps from one invocation to the next, and how it takes a batch."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

from aws_lambda_powertools import Logger
from botocore.config import Config
from pydantic import ValidationError

from clarion import tables
from clarion.events import EventLog
from clarion.messages import EnvelopeMessage
from clarion.metrics import metrics_of
from match.admission import Admission
from match.batch import Matcher
from match.caps import Caps
from match.case import Case
from match.claims import Claims
from match.dead_letters import DeadLetter, DeadLetters
from match.delays import Delays, Receipt
from match.outbox import Outbox
from match.report import Report
from match.settings import MatchSettings
from match.source import Source
from match.windows import Windows

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

SERVICE = "match"
WORKERS = 16
_PATIENCE = Config(connect_timeout=1, read_timeout=3, retries={"total_max_attempts": 2}, max_pool_connections=WORKERS)
"""A connection that hangs must leave an invocation the time to end: else all that it has posted is posted again."""
_TABLE_SECONDS = 3
NO_LIMIT = 24 * 3_600_000
"""Milliseconds that are left where nobody stops the work."""


def now() -> int:
    """UNIX milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Clients:
    """The ways to AWS; `pool` is where requests wait for their answers."""

    dynamodb: "DynamoDBClient"
    sqs: "SQSClient"
    firehose: "FirehoseClient"
    s3: Callable[[], "S3Client"]
    pool: Executor

    @classmethod
    def make(cls, table_prefix: str) -> Self:
        connection = tables.bind(table_prefix, pool=WORKERS, seconds=_TABLE_SECONDS)
        # One session for all, and botocore's: boto3 takes a tenth of a second to import and adds nothing needed here.
        session = connection.session
        return cls(
            dynamodb=cast("DynamoDBClient", connection.client),
            sqs=cast("SQSClient", session.create_client("sqs", config=_PATIENCE)),
            firehose=cast("FirehoseClient", session.create_client("firehose", config=_PATIENCE)),
            s3=cache(lambda: cast("S3Client", session.create_client("s3", config=_PATIENCE))),
            pool=ThreadPoolExecutor(WORKERS),
        )


@dataclass(frozen=True)
class Room:
    matcher: Matcher
    delays: Delays
    dead_letters: DeadLetters
    report: Report

    @classmethod
    def open(cls, settings: MatchSettings, clients: Clients, clock: Callable[[], int] = now) -> Self:
        claims = Claims(clients.dynamodb)
        outbox = Outbox(clients.sqs, clients.pool)
        matcher = Matcher(
            settings=settings,
            source=Source(clients.s3, settings.oversize_bucket),
            claims=claims,
            admission=Admission(
                settings.limit,
                claims,
                Windows(clients.dynamodb, settings.limit),
                Caps(clients.dynamodb, settings.cap, settings.concurrency),
                clock,
            ),
            outbox=outbox,
            pool=clients.pool,
            clock=clock,
        )
        delays = Delays(clients.sqs, settings.envelopes_queue_url, clients.pool)
        report = Report(
            events=EventLog(clients.firehose, settings.events_stream),
            metrics=metrics_of(SERVICE, settings.stage),
            logger=Logger(service=SERVICE),
        )
        return cls(matcher, delays, DeadLetters(outbox, settings.dead_letter_url), report)

    def take(self, records: Sequence[Mapping[str, Any]], time_left: Callable[[], int] = lambda: NO_LIMIT) -> list[str]:
        """Decide on a batch of SQS records; returns the ids of the messages that are to come again.

        `time_left` says how many milliseconds it may still take.
        """
        cases, poisoned = _opened(records)
        replace(self.matcher, time_left=time_left).decide(cases)
        given_up = self._given_up(cases, records)
        buried = self.dead_letters.bury([*poisoned, *given_up])
        failed = {case.message_id for case in cases if case.fault} | {dead.message_id for dead in poisoned}
        unfinished = [record for record in records if record["messageId"] in failed - buried]
        self.delays.postpone(map(_receipt, unfinished))
        self._report(cases, poisoned, [dead for dead in given_up if dead.message_id in buried])
        return [record["messageId"] for record in unfinished]

    def _given_up(self, cases: Sequence[Case], records: Sequence[Mapping[str, Any]]) -> list[DeadLetter]:
        """What failed at the last of its receives."""
        faults = {case.message_id: case.fault for case in cases if case.fault}
        last = self.matcher.settings.max_receives
        return [
            DeadLetter(name, record["body"], fault)
            for record in records
            if (fault := faults.get(name := record["messageId"])) and last and _receipt(record).receives >= last
        ]

    def _report(self, cases: Sequence[Case], poisoned: Sequence[DeadLetter], given_up: Sequence[DeadLetter]) -> None:
        at = self.matcher.clock()
        for case in cases:
            self.report.case(case, at)
        for dead in poisoned:
            self.report.poisoned(dead)
        for dead in given_up:
            self.report.given_up(dead)
        self.report.close()


def _opened(records: Sequence[Mapping[str, Any]]) -> tuple[list[Case], list[DeadLetter]]:
    """The statements, and what can't be read as one."""
    cases: list[Case] = []
    poisoned: list[DeadLetter] = []
    for record in records:
        message_id, body = record["messageId"], record["body"]
        try:
            cases.append(Case(message_id, EnvelopeMessage.model_validate_json(body)))
        except ValidationError as flaw:
            poisoned.append(DeadLetter(message_id, body, _reason(flaw)))
    return cases, poisoned


def _receipt(record: Mapping[str, Any]) -> Receipt:
    return Receipt(record["receiptHandle"], int(record["attributes"]["ApproximateReceiveCount"]))


def _reason(flaw: ValidationError) -> str:
    """Which field is wrong, without its value."""
    return "; ".join(
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in flaw.errors(include_input=False)
    )
