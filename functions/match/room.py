"""What one Lambda sandbox keeps from one invocation to the next, and how it takes a batch."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from aws_lambda_powertools import Logger
from botocore.config import Config
from pydantic import ValidationError

from clarion import tables
from clarion.events import EventLog
from clarion.messages import StatementMessage
from clarion.metrics import metrics_of
from match.admission import Admission
from match.batch import Matcher
from match.case import Case
from match.claims import Claims
from match.delays import Delays, Receipt
from match.outbox import Letter, Outbox
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
        connection = tables.bind(table_prefix, pool=WORKERS)
        # One session for all, and botocore's: boto3 takes a tenth of a second to import and adds nothing needed here.
        session = connection.session
        return cls(
            dynamodb=cast("DynamoDBClient", connection.client),
            sqs=cast("SQSClient", session.create_client("sqs", config=Config(max_pool_connections=WORKERS))),
            firehose=cast("FirehoseClient", session.create_client("firehose")),
            s3=cache(lambda: cast("S3Client", session.create_client("s3"))),
            pool=ThreadPoolExecutor(WORKERS),
        )


class Poison(NamedTuple):
    """A message that can't be read."""

    message_id: str
    body: str
    reason: str


@dataclass(frozen=True)
class Room:
    matcher: Matcher
    delays: Delays
    report: Report

    @classmethod
    def open(cls, settings: MatchSettings, clients: Clients, clock: Callable[[], int] = now) -> Self:
        claims = Claims(clients.dynamodb)
        matcher = Matcher(
            settings=settings,
            source=Source(clients.s3, settings.oversize_bucket),
            claims=claims,
            admission=Admission(settings.limit, claims, Windows(clients.dynamodb), clock),
            outbox=Outbox(clients.sqs, clients.pool),
            pool=clients.pool,
            clock=clock,
        )
        delays = Delays(clients.sqs, settings.statements_queue_url, clients.pool)
        report = Report(
            events=EventLog(clients.firehose, settings.events_stream),
            metrics=metrics_of(SERVICE, settings.stage),
            logger=Logger(service=SERVICE),
        )
        return cls(matcher, delays, report)

    def take(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Decide on a batch of SQS records; returns the ids of the messages that are to come again."""
        cases, poisoned = self._opened(records)
        unburied = self._bury(poisoned)
        self.matcher.decide(cases)
        at = self.matcher.clock()
        for case in cases:
            self.report.case(case, at)
        self.report.close()
        faulted = {case.message_id for case in cases if case.fault}
        self.delays.postpone(_receipt(record) for record in records if record["messageId"] in faulted)
        return [*unburied, *faulted]

    def _opened(self, records: Sequence[Mapping[str, Any]]) -> tuple[list[Case], list[Poison]]:
        cases: list[Case] = []
        poisoned: list[Poison] = []
        for record in records:
            message_id, body = record["messageId"], record["body"]
            try:
                cases.append(Case(message_id, StatementMessage.model_validate_json(body)))
            except ValidationError as flaw:
                poisoned.append(Poison(message_id, body, _reason(flaw)))
        return cases, poisoned

    def _bury(self, poisoned: Sequence[Poison]) -> list[str]:
        """Send what no retry makes readable to the dead-letter queue; returns those that must get there by retries."""
        for poison in poisoned:
            self.report.poison(poison.message_id, poison.reason)
        url = self.matcher.settings.dead_letter_url
        if not url:
            return [poison.message_id for poison in poisoned]
        letters = {poison.message_id: Letter(url, poison.body, reason=poison.reason) for poison in poisoned}
        refused = self.matcher.outbox.post(letters.values())
        return [message_id for message_id, letter in letters.items() if letter in refused]


def _receipt(record: Mapping[str, Any]) -> Receipt:
    return Receipt(record["receiptHandle"], int(record["attributes"]["ApproximateReceiveCount"]))


def _reason(flaw: ValidationError) -> str:
    """Which field is wrong, without its value."""
    return "; ".join(
        f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in flaw.errors(include_input=False)
    )
