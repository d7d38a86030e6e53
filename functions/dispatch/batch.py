"""One batch of a push queue: everything in it is sent at once, then each message is finished, delayed or buried."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pynamodb.connection import Connection
from pynamodb.exceptions import TransactWriteError

from clarion.decisions import PushDecision
from clarion.events import EventLog, PushTried
from clarion.messages import PushMessage
from clarion.providers.outcomes import Delivered, Misconfigured, Outcome, Refused, RetryLater, TokenGone
from clarion.providers.sender import send
from clarion.providers.transport import Transport
from clarion.tables import Subscription
from clarion.tokens import declare_dead
from dispatch import retries
from dispatch.pushes import App, Stale, SubscriptionGone, build, obstacle, useful_until
from dispatch.queue import Delivery, PushQueue

HOLD_SECONDS = 60.0
"""How long a message rests that a misconfiguration holds back."""
DEATHS_AT_ONCE = 8
"""Transactions that mark subscriptions invalid; each takes some ten milliseconds."""

type Verdict = Outcome | Stale | SubscriptionGone


@dataclass(slots=True)
class Attempt:
    delivery: Delivery
    message: PushMessage
    subscription: Subscription | None
    verdict: Verdict | None = None
    rest: float | None = None
    """Seconds until the message is tried again; None if it is finished."""


@dataclass(slots=True)
class Report:
    """`unfinished` are the ids of messages that stay in the queue; `latencies` are of delivered pushes, in ms."""

    unfinished: list[str] = field(default_factory=list)
    decisions: Counter[PushDecision] = field(default_factory=Counter)
    latencies: list[int] = field(default_factory=list)
    misconfigurations: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    app: App
    transport: Transport
    connection: Connection
    queue: PushQueue
    events: EventLog
    title: str
    clock: Callable[[], float] = time.time

    def run(self, deliveries: Sequence[Delivery]) -> Report:
        attempts = self._attempts(deliveries)
        self._send([attempt for attempt in attempts if attempt.verdict is None])
        self._declare_dead([attempt for attempt in attempts if isinstance(attempt.verdict, TokenGone)])
        for attempt in attempts:
            _settle(attempt, self.clock())
        postponed = [(attempt.delivery, attempt.rest) for attempt in attempts if attempt.rest is not None]
        refused = [attempt.delivery for attempt in attempts if isinstance(attempt.verdict, Refused)]
        unreadable = [delivery for delivery in deliveries if delivery.message is None]
        self.queue.postpone(postponed)
        left = self.queue.bury(refused + unreadable)
        report = self._report(attempts)
        report.unfinished = [delivery.message_id for delivery, _ in postponed] + [one.message_id for one in left]
        return report

    def _attempts(self, deliveries: Sequence[Delivery]) -> list[Attempt]:
        readable = [(delivery, delivery.message) for delivery in deliveries if delivery.message is not None]
        wanted = {str(message.subscription_id) for _, message in readable}
        rows = {row.subscription_id: row for row in Subscription.batch_get(list(wanted))}
        now = self.clock()
        attempts = []
        for delivery, message in readable:
            row = rows.get(str(message.subscription_id))
            attempts.append(Attempt(delivery, message, row, obstacle(message, row, now)))
        return attempts

    def _send(self, attempts: Sequence[Attempt]) -> None:
        now = self.clock()
        pushes = [
            build(attempt.message, attempt.subscription.token, self.app, title=self.title, now=now)
            for attempt in attempts
            if attempt.subscription is not None
        ]
        for attempt, outcome in zip(attempts, send(self.transport, pushes), strict=True):
            attempt.verdict = outcome

    def _declare_dead(self, attempts: Sequence[Attempt]) -> None:
        if attempts:
            with ThreadPoolExecutor(DEATHS_AT_ONCE) as pool:
                list(pool.map(self._declare_one_dead, attempts))

    def _declare_one_dead(self, attempt: Attempt) -> None:
        if attempt.subscription is None or not isinstance(attempt.verdict, TokenGone):
            return
        gone, now = attempt.verdict, int(self.clock() * 1000)
        try:
            declare_dead(self.connection, attempt.subscription, reason=gone.reason, gone_since=gone.since, now=now)
        except TransactWriteError:
            attempt.verdict = RetryLater(status=gone.status, reason="the token's death was not recorded")

    def _report(self, attempts: Sequence[Attempt]) -> Report:
        report = Report()
        now = int(self.clock() * 1000)
        for attempt in attempts:
            event = _event(attempt, now)
            self.events.add(event)
            report.decisions[event.decision] += 1
            if isinstance(attempt.verdict, Delivered):
                report.latencies.append(event.latency_ms)
            if isinstance(attempt.verdict, Misconfigured):
                report.misconfigurations.add(attempt.verdict.reason)
        return report


def _settle(attempt: Attempt, now: float) -> None:
    """Decide how long the message rests. One that would come back too late to be of use is stale already."""
    match attempt.verdict:
        case RetryLater(after=after) as verdict:
            rest = retries.delay(attempt.delivery.attempt, after)
        case Misconfigured() as verdict:
            rest = HOLD_SECONDS
        case _:
            return
    if now + rest < useful_until(attempt.message):
        attempt.rest = rest
    else:
        attempt.verdict = Stale(reason=verdict.reason, status=verdict.status)


def _event(attempt: Attempt, now: int) -> PushTried:
    message, verdict = attempt.message, attempt.verdict
    if verdict is None:
        raise AssertionError("an attempt without a verdict")
    return PushTried(
        at=now,
        receipt=message.receipt,
        statement_hash=message.statement_hash,
        decision=verdict.decision,
        subscription_id=message.subscription_id,
        notify_type=message.notify_type,
        attempt=attempt.delivery.attempt,
        latency_ms=max(0, now - message.observed_at),
        status=verdict.status,
        reason=verdict.reason,
        provider_id=verdict.provider_id if isinstance(verdict, Delivered) else None,
    )
