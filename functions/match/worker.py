"""What a Lambda sandbox keeps from one invocation to the next, and how it handles a batch of SQS records."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from clarion import aws, sqs, tables
from clarion.clock import now_ms
from clarion.event_log import EventLog, EventWriter
from clarion.messages import MatchMessage, read_match_message
from clarion.metrics import metrics_of
from clarion.sqs import Received
from match.admission import Admission
from match.batch import Matcher
from match.caps import Caps
from match.claims import Claims
from match.failures import Failure, Pool
from match.item import Handled
from match.recording import NewestRecorder
from match.report import DecisionLog
from match.settings import MatchSettings
from match.verify import RawEnvelopes
from match.windows import Windows

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

SERVICE = "match"
THREADS = 16
RESERVE = 12_000
"""Milliseconds kept for sending what was decided, and for the failed messages' delays. With less left, nothing begins."""
UNLIMITED = 24 * 3_600_000
"""Milliseconds that are left where nobody stops the work."""
FIRST_DELAY, DELAY_GROWTH, LONGEST_DELAY = 2, 5, 300
"""Seconds, factor, seconds: 2, 10, 50, 250. Eight receives bridge twenty minutes of trouble."""


def retry_delay(receives: int) -> int:
    """Seconds until a message that failed is received again: soon at first, for most faults pass, and ever later.

    Left alone, it stays hidden for the queue's visibility: minutes, and so too late for any call.
    """
    grown: int = FIRST_DELAY * DELAY_GROWTH ** (receives - 1)
    return min(grown, LONGEST_DELAY)


class MatchClients(NamedTuple):
    """The ways to AWS; requests wait for their answers in `executor`."""

    dynamodb: "DynamoDBClient"
    sqs: "SQSClient"
    firehose: "FirehoseClient"
    s3: Callable[[], "S3Client"]
    executor: Executor

    @classmethod
    def make(cls, table_prefix: str) -> Self:
        connection = tables.bind(table_prefix, pool=THREADS)
        session = connection.session
        return cls(
            dynamodb=cast("DynamoDBClient", connection.client),
            sqs=aws.sqs(session, pool=THREADS),
            firehose=aws.firehose(session),
            s3=cache(lambda: aws.s3(session, pool=THREADS)),
            executor=ThreadPoolExecutor(THREADS),
        )


class MatchWorker(NamedTuple):
    settings: MatchSettings
    clients: MatchClients
    matcher: Matcher
    log: DecisionLog

    @classmethod
    def open(cls, settings: MatchSettings, clients: MatchClients, clock: Callable[[], int] = now_ms) -> Self:
        claims = Claims(clients.dynamodb)
        caps = Caps(clients.dynamodb, settings.cap, settings.concurrency)
        pool = Pool(clients.executor)
        matcher = Matcher(
            settings=settings,
            envelopes=RawEnvelopes(clients.s3, settings.oversize_bucket),
            claims=claims,
            admission=Admission(settings.limit, claims, Windows(clients.dynamodb), caps, clock),
            recorder=NewestRecorder(clients.dynamodb, settings.table_prefix, settings.limit, settings.cap, clock, pool),
            dynamodb=clients.dynamodb,
            sqs=clients.sqs,
            pool=pool,
            clock=clock,
        )
        log = DecisionLog(
            events=EventLog(EventWriter(clients.firehose, clients.sqs, settings)),
            metrics=metrics_of(SERVICE, settings.stage),
            logger=Logger(service=SERVICE),
        )
        return cls(settings, clients, matcher, log)

    def handle(
        self, records: Sequence[Mapping[str, Any]], time_left: Callable[[], int] = lambda: UNLIMITED
    ) -> list[str]:
        """Decide on a batch of SQS records; returns the ids of the messages to be received again.

        `time_left` gives the milliseconds that it may still take.
        """
        received = [Received.of(record) for record in records]
        messages, unreadable = _read(received)
        pool = self.matcher.pool._replace(may_begin=lambda: time_left() >= RESERVE)
        ended = self.matcher._replace(pool=pool).handle(messages)
        failed = {name: one.reason for name, one in ended.items() if isinstance(one, Failure)}
        last = {one.message_id for one in received if self._is_last(one)}
        undeliverable = unreadable | {name: reason for name, reason in failed.items() if name in last}
        dead = self._dead_letter([one for one in received if one.message_id in undeliverable], undeliverable)
        unfinished = [one for one in received if one.message_id in (failed | unreadable).keys() - dead]
        self._retry_later(unfinished)
        self._report(messages, ended, unreadable, {name: failed[name] for name in dead & failed.keys()})
        return [one.message_id for one in unfinished]

    def _is_last(self, message: Received) -> bool:
        return self.settings.max_receives is not None and message.receives >= self.settings.max_receives

    def _dead_letter(self, messages: Sequence[Received], reasons: Mapping[str, str]) -> set[str]:
        """The ids of the messages that are in the dead-letter queue now.

        SQS itself takes the others there after their last receive, but without a reason.
        """
        url = self.settings.dead_letter_url
        if not url:
            return set()
        dead = [sqs.dead_letter(one.body, reasons[one.message_id]) for one in messages]
        refusals = sqs.send(self.clients.sqs, url, dead, self.clients.executor)
        return {one.message_id for one, refusal in zip(messages, refusals, strict=True) if refusal is None}

    def _retry_later(self, messages: Sequence[Received]) -> None:
        delays = [(one.receipt_handle, retry_delay(one.receives)) for one in messages]
        sqs.change_visibility(self.clients.sqs, self.settings.queue_url, delays, self.clients.executor)

    def _report(
        self,
        messages: Mapping[str, MatchMessage],
        ended: Mapping[str, Handled | Failure],
        unreadable: Mapping[str, str],
        given_up: Mapping[str, str],
    ) -> None:
        at = self.matcher.clock()
        for network in {message.network for message in messages.values()}:
            self.log.limits(network, self.settings.limit(network), self.settings.cap, at)
        for name, message in messages.items():
            end = ended[name]
            if isinstance(end, Handled):
                self.log.handled(end, at)
            else:
                self.log.failed(message, end)
        for name, reason in unreadable.items():
            self.log.unreadable(name, reason)
        for name, reason in given_up.items():
            self.log.given_up(name, reason)
        self.log.close()


def _read(received: Sequence[Received]) -> tuple[dict[str, MatchMessage], dict[str, str]]:
    """The messages by their ids, and why others can't be read."""
    messages: dict[str, MatchMessage] = {}
    unreadable: dict[str, str] = {}
    for one in received:
        try:
            messages[one.message_id] = read_match_message(one.body)
        except ValidationError as error:
            unreadable[one.message_id] = _invalid_fields(error)
    return messages, unreadable


def _invalid_fields(error: ValidationError) -> str:
    """Which field is wrong, without its value."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False))
