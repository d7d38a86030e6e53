"""Ending what was never proven: pending subscriptions whose day is over, by the hours in which they expire.

An entry is deleted after its subscription has ended, or is found to be pending no more. So a crash between the two
repeats what does nothing, and what fails comes again every hour for a day.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import batched

from aws_lambda_powertools import Logger

from clarion.cleanup import CleanupQueue
from clarion.decisions import SubscriptionStatus
from clarion.endings import expire
from clarion.event_log import EventLog
from clarion.faults import AWS_ERRORS, describe
from clarion.proofs import expires_at
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import BATCH_GET_ITEMS, Subscription, WakeUp
from clarion.wake_ups import expiry_slots

logger = Logger(service="schedule")


class Ending(Enum):
    """What became of a subscription whose day is over; `CHANGED` at that moment, it is left for the next hour."""

    ENDED = auto()
    CHANGED = auto()
    FAILED = auto()


@dataclass(slots=True)
class ExpiryReport:
    """How many subscriptions were ended, and how many could not be."""

    ended: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiries:
    """`threads` is how many subscriptions are ended at once."""

    cleanup: CleanupQueue
    events: EventLog
    threads: int = 8

    def run(self, after: int, at: int, until: float) -> ExpiryReport:
        """End what has expired by the minute `at`; nothing new begins after `until`, in seconds of the monotonic clock."""
        report = ExpiryReport()
        for slot in expiry_slots(after, at):
            for entries in batched(WakeUp.query(slot), BATCH_GET_ITEMS, strict=False):
                if time.monotonic() < until:
                    self._end(entries, at * 60_000, report)
                else:
                    report.failed += len(entries)
        return report

    def _end(self, entries: Sequence[WakeUp], now: int, report: ExpiryReport) -> None:
        rows = Subscription.batch_get([entry.subscription_id for entry in entries], consistent_read=True)
        over = [row for row in rows if row.status == SubscriptionStatus.PENDING and expires_at(row) <= now]
        with ThreadPoolExecutor(self.threads) as pool:
            endings = list(pool.map(partial(self._try_to_end, now=now), over))
        report.ended += endings.count(Ending.ENDED)
        report.failed += endings.count(Ending.FAILED)
        left = {row.subscription_id for row, ending in zip(over, endings, strict=True) if ending is not Ending.ENDED}
        with WakeUp.batch_write() as batch:
            for entry in entries:
                if entry.subscription_id not in left:
                    batch.delete(entry)

    def _try_to_end(self, row: Subscription, now: int) -> Ending:
        try:
            ended = expire(row, now, request_cleanup=self.cleanup.send)
        except (*AWS_ERRORS, ValueError, TypeError) as error:
            logger.error("not ended", subscription_id=row.subscription_id, error=describe(error))  # noqa: TRY400 - its text may quote the row
            return Ending.FAILED
        if ended is None:
            return Ending.CHANGED
        self.events.add(SubscriptionChanged.of(ended, now))
        return Ending.ENDED
