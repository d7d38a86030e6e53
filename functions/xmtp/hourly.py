"""What is due each hour: apps are asked to register again or for newer keys, old keys erased, installations ended.

Every step may run twice. A refresh is sent, and then noted: a crash between the two repeats it, recognisably. Keys are
erased, and an installation's subscription is ended, before the installation's own row says so. Whoever registers again
at that moment stays: its registration is younger than the end that it would have had.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched, chain
from typing import TYPE_CHECKING, NamedTuple, cast

from aws_lambda_powertools import Logger
from pynamodb.connection import Connection

from clarion.channels import Channel
from clarion.cleanup import CleanupQueue
from clarion.clock import now_ms
from clarion.decisions import SubscriptionStatus
from clarion.endings import Death, declare_dead
from clarion.event_log import EventLog
from clarion.faults import AWS_ERRORS, describe
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import (
    BUCKETS,
    Installation,
    are_keys_due,
    asked_since_registered,
    delete_ended,
    is_over,
    lacks_newer_keys,
    note_asked_for_keys,
    note_ending,
    note_pruned,
    was_asked,
)
from clarion.networks.xmtp.rules import newest_stored_period, pack, read
from clarion.networks.xmtp.sender_hmac import period_at
from clarion.rule_events import rule_events
from clarion.rulesets import Changed, Owner, RequestContext, RuleSets, Unchanged
from clarion.sqs import SqsMessage, send_to_queues
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import BATCH_GET_ITEMS, Subscription
from xmtp.refresh import refresh

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

REGISTRATION_OVER = "registration_over"
"""The reason for which a subscription is invalid whose installation was not registered again."""

logger = Logger(service=XMTP)


@dataclass(slots=True)
class HourlyReport:
    """How many installations were sent a refresh and ended, and how many could not be; `finished` if none is left.

    Nothing new is begun after `until`, in seconds of the monotonic clock.
    """

    until: float
    refreshed: int = 0
    ended: int = 0
    failed: int = 0
    finished: bool = True


class Visit(NamedTuple):
    """An installation for which something is due, and its subscription, if there still is one."""

    row: Installation
    subscription: Subscription | None


type Handle = Callable[[Sequence[str], HourlyReport], None]
"""Does what is due for some installations, which are named by their subscriptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hourly:
    """Of `buckets`, all that is due. `threads` is how many installations are handled at once."""

    connection: Connection
    sqs: "SQSClient"
    push_queues: Mapping[Channel, str]
    cleanup: CleanupQueue
    events: EventLog
    clock: Callable[[], int] = now_ms
    threads: int = 8
    buckets: Sequence[int] = range(BUCKETS)

    def run(self, until: float) -> HourlyReport:
        """What AWS refuses ends it early, as the time does."""
        report = HourlyReport(until)
        try:
            report.finished = self._work(report)
        except AWS_ERRORS as error:
            logger.error("not done", error=describe(error))  # noqa: TRY400 - its text may quote a row
            report.finished = False
        return report

    def _work(self, report: HourlyReport) -> bool:
        """Whether all was done that is due."""
        for handle, batch in self._due():
            if time.monotonic() > report.until:
                return False
            handle(batch, report)
        return True

    def _due(self) -> Iterator[tuple[Handle, Sequence[str]]]:
        """Some installations at a time, with what handles them; an end can wait, new keys can't."""
        now = self.clock() // 1000
        for bucket in self.buckets:
            by_keys = Installation.by_keys_due.query(bucket, Installation.keys_due <= now)
            yield from ((self._handle_keys, batch) for batch in _named(by_keys))
        for bucket in self.buckets:
            by_end = Installation.by_end_due.query(bucket, Installation.end_due <= now)
            yield from ((self._handle_ends, batch) for batch in _named(by_end))

    # ---- keys -------------------------------------------------------------------------------------------------------

    def _handle_keys(self, subscription_ids: Sequence[str], report: HourlyReport) -> None:
        """Whoever lacks newer keys and is pending is looked at again in an hour: by then it may be reached."""
        now = self.clock() // 1000
        due = [one for one in _visits(subscription_ids) if are_keys_due(one.row, now)]
        found = self._each(lambda one: (one, self._lacks_newer_keys(one, now, report.until)), due, report)
        lacking, others = ([one for one, lacks in found if lacks is each] for each in (True, False))
        to_ask, unreached = _split(lacking, self._reaches)
        waiting, unreachable = _split(unreached, _is_pending)
        asked = self._ask(to_ask, report)
        self._each(lambda one: note_asked_for_keys(one.row, now), asked, report)
        self._each(lambda one: self._prune(one, report.until), waiting, report)
        self._each(lambda one: self._prune_and_note(one, report.until), [*unreachable, *others], report)

    def _lacks_newer_keys(self, visit: Visit, now: int, until: float) -> bool:
        """By the rules that are in force. They are not read if it was asked in this period."""
        row, subscription = visit
        if subscription is None or not _has_rules(subscription) or was_asked(row, now):
            return False
        found = self._rule_sets.read(row.subscription_id, Owner(XMTP, subscription.client_id), until=until)
        newest = None if isinstance(found, Unchanged) else newest_stored_period(found[1].values())
        return lacks_newer_keys(row, newest, now)

    def _prune_and_note(self, visit: Visit, until: float) -> None:
        """Rules that change again and again meanwhile are left to the next hour."""
        if self._prune(visit, until):
            note_pruned(visit.row, self.clock() // 1000)

    def _prune(self, visit: Visit, until: float) -> bool:
        """Erase the keys that serve no more; whether none is left."""
        row, subscription = visit
        if subscription is None or not _has_rules(subscription):
            return True
        now = self.clock()
        owner, period = Owner(XMTP, subscription.client_id), period_at(now // 1000)
        outcome = self._rule_sets.rewrite(
            row.subscription_id, owner, lambda packed: pack(read(packed).pruned(period)), RequestContext(now, until)
        )
        if not isinstance(outcome, Changed):
            return False
        for event in rule_events(outcome, now):
            self.events.add(event)
        return True

    @property
    def _rule_sets(self) -> RuleSets:
        return RuleSets(self.connection, limit=0, request_cleanup=self.cleanup.send_claim)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _handle_ends(self, subscription_ids: Sequence[str], report: HourlyReport) -> None:
        now = self.clock() // 1000
        due = [one for one in _visits(subscription_ids) if one.row.end_due <= now]
        over, ending = _split(due, lambda one: is_over(one.row, now))
        to_ask, others = _split(ending, lambda one: self._reaches(one) and not asked_since_registered(one.row))
        asked = self._ask(to_ask, report)
        self._each(lambda one: note_ending(one.row, Installation.asked_at.set(now)), asked, report)
        self._each(lambda one: note_ending(one.row), others, report)
        report.ended += sum(self._each(self._end, over, report))

    def _end(self, visit: Visit) -> bool:
        """Whether a subscription was ended: it may have been before."""
        row, subscription = visit
        now, ended = self.clock(), list[Subscription]()
        if subscription is not None:
            death = Death(REGISTRATION_OVER, at=now, since=int(row.valid_until) * 1000, certain=False)
            ended = declare_dead(self.connection, subscription, death, request_cleanup=self.cleanup.send)
        for one in ended:
            self.events.add(SubscriptionChanged.of(one, now))
        delete_ended(row)
        return bool(ended)

    # ---- both -------------------------------------------------------------------------------------------------------

    def _reaches(self, visit: Visit) -> bool:
        row = visit.subscription
        return row is not None and row.status == SubscriptionStatus.ACTIVE and row.channel in self.push_queues

    def _ask(self, visits: Sequence[Visit], report: HourlyReport) -> list[Visit]:
        """Send each a refresh; returns those for whom it was queued. Each is reached."""
        now = self.clock()
        composed = self._each(
            lambda one: (one, refresh(one.row, cast("Subscription", one.subscription), now)), visits, report
        )
        queued = [(self.push_queues[message.channel], SqsMessage(message.to_json())) for _, message in composed]
        refusals = zip(composed, send_to_queues(self.sqs, queued), strict=True)
        asked = [visit for (visit, _), refusal in refusals if refusal is None]
        report.refreshed += len(asked)
        report.failed += len(composed) - len(asked)
        return asked

    def _each[T](self, work: Callable[[Visit], T], visits: Sequence[Visit], report: HourlyReport) -> list[T]:
        """What `work` makes of each. One that fails is logged and counted, and keeps no other from being handled."""

        def attempt(visit: Visit) -> list[T]:
            try:
                return [work(visit)]
            except (*AWS_ERRORS, ValueError, TypeError) as error:
                name, described = visit.row.subscription_id, describe(error)
                logger.error("not handled", subscription_id=name, error=described)  # noqa: TRY400 - as above
                return []

        with ThreadPoolExecutor(self.threads) as pool:
            found = list(pool.map(attempt, visits))
        report.failed += found.count([])
        return list(chain.from_iterable(found))


def _has_rules(subscription: Subscription) -> bool:
    return SubscriptionStatus(subscription.status).has_rules


def _is_pending(visit: Visit) -> bool:
    return visit.subscription is not None and visit.subscription.status == SubscriptionStatus.PENDING


def _visits(subscription_ids: Sequence[str]) -> list[Visit]:
    """As the tables have them: an index may lag behind."""
    names = list(subscription_ids)
    rows = Installation.batch_get(names, consistent_read=True)
    subscriptions = {row.subscription_id: row for row in Subscription.batch_get(names, consistent_read=True)}
    return [Visit(row, subscriptions.get(row.subscription_id)) for row in rows]


def _split(visits: Sequence[Visit], which: Callable[[Visit], bool]) -> tuple[list[Visit], list[Visit]]:
    """Those for which `which` holds, and the others."""
    return [one for one in visits if which(one)], [one for one in visits if not which(one)]


def _named(found: Iterator[Installation]) -> Iterator[Sequence[str]]:
    return batched((row.subscription_id for row in found), BATCH_GET_ITEMS, strict=False)
