"""What became of each statement and notification, told to the lake, the metrics and the log in the same words."""

from collections import Counter
from uuid import UUID

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from clarion.decisions import EnvelopeDecision
from clarion.events import EventLog, NotificationDecided, EnvelopeDecided
from clarion.metrics import Metric, decided
from match.admission import Notification, Ruling
from match.case import Case
from match.dead_letters import DeadLetter


class Report:
    """Collects what one invocation decided; `close` hands it over."""

    def __init__(self, *, events: EventLog, metrics: EphemeralMetrics, logger: Logger) -> None:
        self._events = events
        self._metrics = metrics
        self._logger = logger
        self._counts: Counter[str] = Counter()

    def poisoned(self, dead: DeadLetter) -> None:
        """A message that no retry makes readable."""
        self._counts[Metric.MESSAGES_POISONED] += 1
        self._logger.error("message unreadable", extra={"message_id": dead.message_id, "reason": dead.reason})

    def given_up(self, dead: DeadLetter) -> None:
        """A statement that failed at its last attempt, too, and is among the dead letters."""
        self._counts[Metric.ENVELOPES_GIVEN_UP] += 1
        self._logger.error("statement given up", extra={"message_id": dead.message_id, "reason": dead.reason})

    def case(self, case: Case, at: int) -> None:
        receipt = str(case.message.receipt)
        if case.fault:
            self._counts[Metric.ENVELOPES_FAILED] += 1
            self._logger.warning("statement failed", extra={"receipt": receipt, "reason": case.fault})
            return
        self._left_out(case)
        told: dict[str, object] = dict(Counter(ruling.decision for _, ruling in case.rulings))
        if case.decision:
            told |= {"decision": case.decision, "reason": case.reason}
            self._counts[decided(case.decision)] += 1
            self._events.add(_statement_event(case, case.decision, at))
        for notification, ruling in case.rulings:
            self._counts[decided(ruling.decision)] += 1
            self._events.add(_notification_event(notification, ruling, at))
        if told:
            self._logger.info("statement decided", extra={"receipt": receipt, **told})

    def _left_out(self, case: Case) -> None:
        """Whom a decided statement did not reach, and would not at any further attempt."""
        for name, reason in case.left_out.items():
            self._counts[Metric.RECEIVERS_UNREADABLE] += 1
            told = {"receipt": str(case.message.receipt), "subscription_id": name, "reason": reason}
            self._logger.error("receiver unreadable", extra=told)

    def close(self) -> None:
        self._counts[Metric.EVENTS_LOST] += self._events.flush()
        for name, count in self._counts.items():
            self._metrics.add_metric(name, MetricUnit.Count, count)
        self._counts.clear()
        self._metrics.flush_metrics()


def _statement_event(case: Case, decision: EnvelopeDecision, at: int) -> EnvelopeDecided:
    statement = case.statement
    return EnvelopeDecided(
        at=at,
        receipt=case.message.receipt,
        envelope_id=statement.hash if statement else None,
        decision=decision,
        observed_at=case.message.observed_at,
        sender=statement.signer if statement else None,
        reason=case.reason,
    )


def _notification_event(notification: Notification, ruling: Ruling, at: int) -> NotificationDecided:
    receiver = notification.match.receiver
    return NotificationDecided(
        at=at,
        receipt=notification.receipt,
        envelope_id=notification.envelope_id,
        decision=ruling.decision,
        subscription_id=UUID(receiver.subscription_id),
        client_id=receiver.client_id,
        channel=receiver.channel,
        sender=notification.sender,
        topic=notification.match.topic,
        order=ruling.order,
        judged_at=ruling.judged_at,
        counted=ruling.counted,
    )
