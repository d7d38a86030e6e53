"""One batch of a push queue: everything in it is sent at once, then each message is finished, delayed, held or dead-lettered."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

from aws_lambda_powertools import Logger
from pynamodb.connection import Connection
from pynamodb.exceptions import PynamoDBException

from clarion import own_pushes
from clarion.cleanup import CleanupQueue
from clarion.decisions import Purpose, PushDecision
from clarion.endings import Death, declare_dead
from clarion.event_log import EventLog
from clarion.faults import AWS_ERRORS, describe
from clarion.messages import CommandMessage, PushMessage
from clarion.networks import Command, PushAnswer, network
from clarion.proofs import record_push, unmasked
from clarion.providers.apps import App, Apps
from clarion.providers.outcomes import Delivered, Misconfigured, Refused, RetryLater, TokenGone
from clarion.providers.sender import Push, send_and_probe
from clarion.providers.transport import Transport
from clarion.secrets import Secret, SecretError, SharedSecret
from clarion.subscription_events import SubscriptionChanged
from clarion.tables import Subscription
from dispatch.app_state import CircuitBreaker, ProbedAnswer, TokenFaultScore
from dispatch.attempts import (
    SECRET_UNREAD,
    UNREAD,
    UNTRIED,
    Attempt,
    Sendable,
    Verdict,
    apply_registration_time,
    schedule_retry,
    tried,
)
from dispatch.bodies import add_bodies, note_sent
from dispatch.pushes import SubscriptionGone, build, is_networks_own, obstacle
from dispatch.queue import Delivery, PushQueue

logger = Logger(service="dispatch")
WRITERS = 10
"""So many requests move a batch of the held queue, a hundred messages."""
SENDING_SECONDS = 20.0
"""With less left nothing is sent: a trial and the pushes after it may wait for two answers, and what they met is to be
written."""
RESERVE_SECONDS = 12.0
"""With less left no row is written and no message moved: a request that hangs takes 8 s, the events' own another 4."""
OUT_OF_TIME = "no time left"


@dataclass(slots=True)
class BatchReport:
    """`unfinished` are the ids of messages that stay in the queue; `latencies` are those of delivered pushes, in ms.

    Those of Clarion's own are neither among the latencies nor what an alarm compares with match's writes: nobody's envelope
    was on its way. `own_delivered` says how many of the delivered they are.
    """

    unfinished: list[str] = field(default_factory=list)
    decisions: Counter[PushDecision] = field(default_factory=Counter)
    latencies: list[int] = field(default_factory=list)
    own_delivered: int = 0
    token_faults: int = 0
    """How many of the refused may have been so for their tokens' own fault."""
    strangers_gone: int = 0
    """How many of the dead tokens nobody had proven: anybody can make them up."""
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many messages wait until somebody fixes the app."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Rows are written by `writers`, `WRITERS` at once; to end a subscription takes some ten milliseconds.

    A message that failed in `max_receives` attempts is a dead letter. Where AWS hangs, no more begins than `seconds_left`
    allows: if the invocation were ended, all that it has pushed would be pushed again.
    """

    apps: Apps[App]
    transport: Transport
    connection: Connection
    queue: PushQueue
    cleanup: CleanupQueue
    events: EventLog
    clock: Callable[[], float] = time.time
    command_queues: Mapping[str, str] = field(default_factory=dict)
    payload_secrets: Mapping[str, Secret[SharedSecret]] = field(default_factory=dict)
    table_prefix: str = ""
    writers: Executor = field(default_factory=lambda: ThreadPoolExecutor(WRITERS))
    max_receives: int | None = None
    states: dict[App, tuple[CircuitBreaker, TokenFaultScore]] = field(default_factory=dict)
    seconds_left: Callable[[], float] = field(default=lambda: inf, repr=False)

    def run(self, deliveries: Sequence[Delivery]) -> BatchReport:
        report = BatchReport()
        attempts = self._attempts(deliveries)
        add_bodies(attempts, self.connection, self.table_prefix)
        self._add_secrets(attempts)
        if self.seconds_left() >= SENDING_SECONDS:
            self._send(self._sendable(attempts))
        self._note_sent(attempts)
        self._schedule(attempts)
        # Before a subscription ends: when its message comes again, the answer of the provider is known no more.
        without_command = self._send_commands(attempts)
        others = [attempt for attempt in attempts if attempt.delivery.received.message_id not in without_command]
        self._end_subscriptions(others)
        self._record_proofs(attempts)
        self._conclude(attempts, report)
        unreadable = [delivery for delivery in deliveries if delivery.message is None]
        report.unfinished = [*without_command, *self._delay(others), *self._dead_letter(others, unreadable)]
        return report

    def _attempts(self, deliveries: Sequence[Delivery]) -> list[Attempt]:
        """Each message with its subscription, and what stands in its way."""
        readable = [(delivery, delivery.message) for delivery in deliveries if delivery.message is not None]
        attempts = [Attempt(delivery, message, None) for delivery, message in readable]
        now, fresh = self.clock(), any(_follows_a_write(message) for _, message in readable)
        try:
            _look_up(attempts, now, consistently=fresh)
            if not fresh and (dropped := _of_dropped(attempts)):
                # It may have been written a moment before.
                _look_up(dropped, now, consistently=True)
        except PynamoDBException:
            return [Attempt(delivery, message, None, UNREAD) for delivery, message in readable]
        return attempts

    def _add_secrets(self, attempts: Iterable[Attempt]) -> None:
        """Those of the networks whose payloads need one, each read once for all."""
        untried = [attempt for attempt in attempts if attempt.verdict is UNTRIED]
        for name in {attempt.message.network for attempt in untried} & self.payload_secrets.keys():
            of_network = [attempt for attempt in untried if attempt.message.network == name]
            try:
                secret = self.payload_secrets[name].get()
            except (SecretError, *AWS_ERRORS):
                for attempt in of_network:
                    attempt.verdict = SECRET_UNREAD
                continue
            for attempt in of_network:
                attempt.secret = secret

    def _note_sent(self, attempts: Iterable[Attempt]) -> None:
        sent = [one for one in attempts if one.newest is not None and isinstance(one.verdict, Delivered)]
        self._written(self._note_one_sent, sent)

    def _note_one_sent(self, attempt: Attempt) -> None:
        """What can't be noted may be pushed again: better than that this push is, as it would if its message came back."""
        reason = OUT_OF_TIME
        try:
            if self._has_time():
                note_sent(attempt, self.connection, self.table_prefix)
                return
        except AWS_ERRORS as error:
            reason = describe(error)
        logger.error(
            "not noted as sent", extra={"subscription_id": str(attempt.message.subscription_id), "reason": reason}
        )

    def _sendable(self, attempts: Iterable[Attempt]) -> dict[App, list[Sendable]]:
        by_app: dict[App, list[Sendable]] = defaultdict(list)
        for attempt in attempts:
            row = attempt.row
            if row is None or attempt.verdict is not UNTRIED:
                continue
            app = self.apps.find(row.app, row.environment, row.token)
            if app is None:
                attempt.verdict = Misconfigured(status=None, reason="unknown app", whole_app=False)
            else:
                by_app[app].append(Sendable(attempt, row, app))
        return by_app

    def _send(self, by_app: dict[App, list[Sendable]]) -> None:
        """Each app in a thread of its own: none waits for another's key, token endpoint or provider."""
        if by_app:
            with ThreadPoolExecutor(len(by_app)) as pool:
                deque(pool.map(self._send_app, by_app, by_app.values()), maxlen=0)

    def _send_app(self, app: App, sendables: Sequence[Sendable]) -> None:
        """An app that is known to work sends all at once; another sends one push as a trial first."""
        breaker, score = self._state(app)
        trials = 1 if not breaker.closed and breaker.allows_trial() else 0
        answers = self._answers(sendables[:trials])
        breaker.observe(answers)
        if breaker.fault is None:
            answers += self._answers(sendables[trials:])
            breaker.observe(answers)
        sent, unsent = sendables[: len(answers)], sendables[len(answers) :]
        of_strangers = [one.attempt.is_of_stranger for one in sent]
        for one, outcome in zip(sent, score.outcomes(answers, of_strangers), strict=True):
            one.attempt.verdict = apply_registration_time(outcome, one.row, one.attempt.delivery.attempt)
        if breaker.fault is not None:
            _hold(unsent, breaker.fault)

    def _answers(self, sendables: Sequence[Sendable]) -> list[ProbedAnswer]:
        now = self.clock()
        built = [_built(one, now) for one in sendables]
        answers = iter(send_and_probe(self.transport, [one for one in built if not isinstance(one, Refused)]))
        return [one if isinstance(one, Refused) else next(answers) for one in built]

    def _state(self, app: App) -> tuple[CircuitBreaker, TokenFaultScore]:
        if app not in self.states:
            self.states[app] = (
                CircuitBreaker(app.credential, self.clock),
                TokenFaultScore(app.credential, self.clock, app.presumed_gone),
            )
        return self.states[app]

    def _schedule(self, attempts: Iterable[Attempt]) -> None:
        """Before anything follows from how an attempt ended: one that can't be retried any more is final."""
        now = self.clock()
        for attempt in attempts:
            schedule_retry(attempt, now, self.max_receives)

    def _send_commands(self, attempts: Iterable[Attempt]) -> list[str]:
        """What final outcomes change in networks' own state; returns the ids of messages to be tried again for it."""
        by_network: dict[str, list[tuple[Delivery, str]]] = defaultdict(list)
        for attempt in attempts:
            if attempt.delay is None and (command := _command(attempt)):
                body = CommandMessage(network=command.network, content=command.content).to_json()
                by_network[command.network].append((attempt.delivery, body))
        return [
            unsent
            for name, commands in by_network.items()
            for unsent in self._moved(partial(self.queue.send_commands, self.command_queues.get(name)), commands)
        ]

    def _end_subscriptions(self, attempts: Iterable[Attempt]) -> None:
        gone = [attempt for attempt in attempts if isinstance(attempt.verdict, TokenGone)]
        for ended in self._written(self._end_subscription, gone):
            for row in ended:
                self.events.add(SubscriptionChanged.of(row, self._milliseconds()))

    def _written[T](self, write: Callable[[Attempt], T], attempts: Iterable[Attempt]) -> list[T]:
        """Once all are done, also if one raises: nothing goes on when the invocation has ended."""
        writes = [self.writers.submit(write, attempt) for attempt in attempts]
        wait(writes)
        return [one.result() for one in writes]

    def _end_subscription(self, attempt: Attempt) -> list[Subscription]:
        gone, row = attempt.verdict, attempt.row
        if row is None or not isinstance(gone, TokenGone):
            return []
        if not self._has_time():
            attempt.verdict = RetryLater(status=gone.status, reason=OUT_OF_TIME)
            self._schedule([attempt])
            return []
        death = Death(gone.reason, at=self._milliseconds(), since=gone.since, certain=gone.certain)
        try:
            return declare_dead(
                self.connection,
                row,
                death,
                request_cleanup=self.cleanup.send,
                request_endings=self.cleanup.send_dead_token,
            )
        except (*AWS_ERRORS, ValueError, TypeError, LookupError):
            attempt.verdict = RetryLater(status=gone.status, reason="the token's death could not be recorded")
            self._schedule([attempt])
            return []

    def _record_proofs(self, attempts: Iterable[Attempt]) -> None:
        """What became of the codes' pushes, for the clients that wait for them; what can't be recorded is not."""
        codes = [one for one in attempts if one.message.purpose is Purpose.VERIFICATION]
        self._written(
            self._record_proof, [one for one in codes if one.row is not None and not is_networks_own(one.message)]
        )

    def _record_proof(self, attempt: Attempt) -> None:
        message = attempt.message
        if self._has_time():
            with suppress(*AWS_ERRORS):
                record_push(str(message.subscription_id), message.receipt, attempt.verdict.decision)

    def _conclude(self, attempts: Iterable[Attempt], report: BatchReport) -> None:
        now = self._milliseconds()
        for attempt in attempts:
            event = tried(attempt, now)
            self.events.add(event)
            report.decisions[event.decision] += 1
            if isinstance(attempt.verdict, Delivered):
                if event.purpose in own_pushes.BODIES:
                    report.own_delivered += 1
                else:
                    report.latencies.append(event.latency_ms)
            if isinstance(attempt.verdict, Refused):
                report.token_faults += attempt.verdict.token_fault
            if isinstance(attempt.verdict, TokenGone):
                report.strangers_gone += attempt.is_of_stranger
            if isinstance(attempt.verdict, Misconfigured):
                app = attempt.row.app if attempt.row else None
                report.faults[app or self.apps.first, attempt.verdict.reason] += 1

    def _delay(self, attempts: Iterable[Attempt]) -> list[str]:
        """Returns the ids of messages that stay in the queue they came from."""
        failed = [(attempt, attempt.delay) for attempt in attempts if attempt.delay is not None]
        held = [
            (replace(attempt.delivery, token_faults=attempt.token_faults), delay)
            for attempt, delay in failed
            if attempt.held
        ]
        unheld = self._moved(self.queue.hold, held)
        retried = [(attempt.delivery, delay) for attempt, delay in failed if not attempt.held]
        if self._has_time():
            self.queue.retry_later(retried)
        return [*unheld, *(delivery.received.message_id for delivery, _ in retried)]

    def _dead_letter(self, attempts: Iterable[Attempt], unreadable: Iterable[Delivery]) -> list[str]:
        """Returns the ids of messages that stay in the queue they came from."""
        refused = [(one.delivery, one.verdict.reason) for one in attempts if isinstance(one.verdict, Refused)]
        dead = [*refused, *((delivery, "message unreadable") for delivery in unreadable)]
        return self._moved(self.queue.dead_letter, dead)

    def _moved[T](
        self, move: Callable[[Sequence[tuple[Delivery, T]]], list[str]], deliveries: Sequence[tuple[Delivery, T]]
    ) -> list[str]:
        """Returns the ids of those left behind: all of them if time is up."""
        return move(deliveries) if self._has_time() else [one.received.message_id for one, _ in deliveries]

    def _has_time(self) -> bool:
        return self.seconds_left() >= RESERVE_SECONDS

    def _milliseconds(self) -> int:
        return int(self.clock() * 1000)


def _look_up(attempts: Collection[Attempt], now: float, *, consistently: bool) -> None:
    wanted = {str(attempt.message.subscription_id) for attempt in attempts}
    rows = {row.subscription_id: row for row in Subscription.batch_get(list(wanted), consistent_read=consistently)}
    for attempt in attempts:
        attempt.row = rows.get(str(attempt.message.subscription_id))
        attempt.verdict = obstacle(attempt.message, attempt.row, now) or UNTRIED


def _of_dropped(attempts: Collection[Attempt]) -> list[Attempt]:
    """Those of subscriptions of which a push would be dropped."""
    gone = {one.message.subscription_id for one in attempts if isinstance(one.verdict, SubscriptionGone)}
    return [one for one in attempts if one.message.subscription_id in gone]


def _follows_a_write(message: PushMessage) -> bool:
    """Whether it may be sent a moment after its subscription was written: a code, or what came before that was active."""
    is_late = message.purpose is Purpose.REFRESH and message.number is not None
    return is_late or message.purpose is Purpose.VERIFICATION


def _built(sendable: Sendable, now: float) -> Push | Refused:
    """A network's payload is made of what strangers wrote: whatever goes wrong there must not fail the batch."""
    try:
        message = unmasked(sendable.attempt.message, sendable.row)
        return build(message, sendable.row, sendable.app, now=now, secret=sendable.attempt.secret)
    except Exception as error:  # noqa: BLE001 - of any network, which may raise anything
        return Refused(status=None, reason=f"no payload: {type(error).__name__}", given_up=True)


def _command(attempt: Attempt) -> Command | None:
    registered_at = None if attempt.row is None else int(attempt.row.created_at)
    answer = PushAnswer(_reason_of(attempt.verdict), registered_at)
    try:
        return network(attempt.message.network).on_outcome(attempt.message, attempt.verdict.decision, answer)
    except Exception as error:  # noqa: BLE001 - as above; the push itself has been sent
        # Without the error's text, which may quote what a stranger wrote.
        reason = {"network": attempt.message.network, "reason": type(error).__name__}
        logger.error("no command", extra=reason)  # noqa: TRY400 - as said
        return None


def _reason_of(verdict: Verdict) -> str | None:
    return None if isinstance(verdict, Delivered) else verdict.reason


def _hold(sendables: Iterable[Sendable], fault: Misconfigured) -> None:
    for one in sendables:
        one.attempt.verdict = Misconfigured(status=None, reason=fault.reason)
