"""What is due each hour: installations that have run out are ended, and others asked for the keys of the next period.

Every step may run twice. A refresh is sent, and then marked: a crash between the two repeats it, recognisably. An
installation's subscription is ended, and then its own row deleted. Whoever registers again at that moment stays: its
registration is younger than the end that it would have had.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import batched
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from aws_lambda_powertools import Logger
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.clock import now_ms
from clarion.decisions import Purpose, SubscriptionStatus, Wanted
from clarion.events import EventLog, SubscriptionChanged
from clarion.faults import AWS_ERRORS, describe
from clarion.messages import PushMessage
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import (
    BUCKETS,
    Installation,
    delete_ended,
    due_buckets,
    mark_refreshed,
    withdraw_refresh,
)
from clarion.networks.xmtp.payload import refresh_body
from clarion.networks.xmtp.sender_hmac import PERIOD_S, period_at
from clarion.sqs import SqsMessage, send_to_queues
from clarion.tables import Subscription
from clarion.tokens import Death, declare_dead

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

EXPIRED = "expired"
"""The reason for which a subscription is invalid whose installation was not registered again."""
GRACE_S = 3600
"""So long an installation stays after its time, so that no clock that is fast ends one that is just being renewed."""
BATCH = 100
"""The most items of one BatchGetItem."""

logger = Logger(service=XMTP)


@dataclass(slots=True)
class HourlyReport:
    """How many installations were sent a refresh and ended, and how many could not be; `finished` if none is left."""

    refreshed: int = 0
    ended: int = 0
    failed: int = 0
    finished: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hourly:
    """`threads` is how many installations are marked, or ended, at once."""

    connection: Connection
    sqs: "SQSClient"
    push_queues: Mapping[Channel, str]
    cleanup: CleanupQueue
    events: EventLog
    clock: Callable[[], int] = now_ms
    threads: int = 8

    def run(self, until: float) -> HourlyReport:
        """Begin nothing new after `until`, in seconds of the monotonic clock; what AWS refuses ends it as well."""
        report = HourlyReport()
        try:
            report.finished = self._work(until, report)
        except AWS_ERRORS as error:
            logger.error("not done", error=describe(error))  # noqa: TRY400 - its text may quote a row
            report.finished = False
        return report

    def _work(self, until: float, report: HourlyReport) -> bool:
        """Whether all was done that is due."""
        for work, batch in self._due():
            if time.monotonic() > until:
                return False
            work(batch, report)
        return True

    def _due(self) -> "Iterator[tuple[Callable[[Sequence[str], HourlyReport], None], Sequence[str]]]":
        """The subscriptions, some at a time, with what is to be done for them; an end can wait, new keys can't."""
        now = self.clock() // 1000
        for bucket in due_buckets(now):
            due = Installation.by_refresh.query(bucket, Installation.refresh_in <= period_at(now))
            yield from ((self._send_refreshes, batch) for batch in _named(due))
        for bucket in range(BUCKETS):
            over = Installation.by_end.query(bucket, Installation.valid_until < now - GRACE_S)
            yield from ((self._end, batch) for batch in _named(over))

    # ---- new keys ---------------------------------------------------------------------------------------------------

    def _send_refreshes(self, subscription_ids: Sequence[str], report: HourlyReport) -> None:
        now = self.clock()
        period = period_at(now // 1000)
        rows = {row.subscription_id: row for row in _subscriptions(subscription_ids) if self._reachable(row)}
        messages = {name: message for name, row in rows.items() if (message := _message(row, now))}
        queued = [(self.push_queues[one.channel], SqsMessage(one.to_json())) for one in messages.values()]
        refusals = zip(messages, send_to_queues(self.sqs, queued), strict=True)
        sent = [name for name, refusal in refusals if refusal is None]
        report.refreshed += len(sent)
        report.failed += len(rows) - len(sent)
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(lambda name: mark_refreshed(name, period), sent))
            list(pool.map(lambda name: withdraw_refresh(name, period), set(subscription_ids) - rows.keys()))

    def _reachable(self, row: Subscription) -> bool:
        return row.status == SubscriptionStatus.ACTIVE and row.channel in self.push_queues

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _end(self, subscription_ids: Sequence[str], report: HourlyReport) -> None:
        """The index may lag behind its table, so it is the table that says which of them are over."""
        now = self.clock()
        subscriptions = {row.subscription_id: row for row in _subscriptions(subscription_ids)}
        rows = Installation.batch_get(list(subscription_ids), consistent_read=True)
        over = [row for row in rows if row.valid_until < now // 1000 - GRACE_S]
        with ThreadPoolExecutor(self.threads) as pool:
            ends = list(pool.map(lambda row: self._try_to_end(row, subscriptions.get(row.subscription_id), now), over))
        report.ended += ends.count(True)
        report.failed += ends.count(None)

    def _try_to_end(self, row: Installation, subscription: Subscription | None, now: int) -> bool | None:
        """As `_end_one`; None if it can't be done now."""
        try:
            return self._end_one(row, subscription, now)
        except (*AWS_ERRORS, ValueError, TypeError) as error:
            logger.error("not ended", subscription_id=row.subscription_id, error=describe(error))  # noqa: TRY400 - as above
            return None

    def _end_one(self, row: Installation, subscription: Subscription | None, now: int) -> bool:
        """Whether a subscription was ended: it may have been before."""
        ended: list[Subscription] = []
        if subscription is not None:
            death = Death(EXPIRED, at=now, since=int(row.valid_until) * 1000, certain=False)
            ended = declare_dead(self.connection, subscription, death, request_cleanup=self.cleanup.send)
        for one in ended:
            self.events.add(SubscriptionChanged.of(one, now))
        delete_ended(row)
        return bool(ended)


def refresh(row: Subscription, now: int) -> PushMessage:
    """One subscription's of one period: the id stays when it is sent again. It is of use until the period ends."""
    period = period_at(now // 1000)
    return PushMessage(
        network=XMTP,
        purpose=Purpose.REFRESH,
        receipt=uuid4(),
        observed_at=now,
        envelope_id=sha256(f"refresh {period} {row.subscription_id}".encode()).digest(),
        subscription_id=UUID(row.subscription_id),
        client_id=row.client_id,
        channel=Channel(row.channel),
        wanted=Wanted.BACKGROUND,
        expires_at=(period + 1) * PERIOD_S,
        body=refresh_body(),
    )


def _message(row: Subscription, now: int) -> PushMessage | None:
    """None for a row that can't be read, which must not keep the others from being asked."""
    try:
        return refresh(row, now)
    except (ValueError, TypeError) as error:
        logger.error("not asked", subscription_id=row.subscription_id, error=describe(error))  # noqa: TRY400 - as above
        return None


def _subscriptions(subscription_ids: Sequence[str]) -> list[Subscription]:
    return list(Subscription.batch_get(list(subscription_ids), consistent_read=True))


def _named(found: "Iterator[Installation]") -> Iterator[Sequence[str]]:
    return batched((row.subscription_id for row in found), BATCH, strict=False)
