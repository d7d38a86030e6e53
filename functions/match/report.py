"""What became of each envelope and notification: recorded in the lake and the metrics in the same words.

The log has what went wrong, and nothing about what went well.
"""

from collections import Counter

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from clarion.decisions import EnvelopeDecision
from clarion.event_log import EventLog
from clarion.events import EnvelopeDecided, LimitsLoaded, NotificationDecided
from clarion.limiter import Limit
from clarion.messages import MatchMessage, PartMessage
from clarion.metrics import Metric, decided, flush
from match.admission import AdmissionResult, Notification
from match.failures import Failure
from match.item import Handled


class DecisionLog:
    """Collects what one invocation decided; `close` sends it."""

    def __init__(self, *, events: EventLog, metrics: EphemeralMetrics, logger: Logger) -> None:
        self._events = events
        self._metrics = metrics
        self._logger = logger
        self._counts: Counter[str] = Counter()
        self._networks: set[str] = set()

    def limits(self, network: str, limit: Limit | None, cap: Limit, at: int) -> None:
        """The limits that this worker decides by: recorded once for each network."""
        if network in self._networks:
            return
        self._networks.add(network)
        of_pair = {"count": limit.count, "window": limit.window, "cooldown": limit.cooldown} if limit else {}
        self._events.add(LimitsLoaded(network=network, at=at, cap=cap.count, cap_window=cap.window, **of_pair))

    def unreadable(self, message_id: str, reason: str) -> None:
        """A message that no retry makes readable."""
        self._counts[Metric.MESSAGES_POISONED] += 1
        self._logger.error("message unreadable", extra={"message_id": message_id, "reason": reason})

    def given_up(self, message_id: str, reason: str) -> None:
        """A message that failed at its last receive, too, and is dead-lettered."""
        self._counts[Metric.ENVELOPES_GIVEN_UP] += 1
        self._logger.error("envelope given up", extra={"message_id": message_id, "reason": reason})

    def failed(self, message: MatchMessage, failure: Failure) -> None:
        self._counts[Metric.ENVELOPES_FAILED] += 1
        self._logger.warning("envelope failed", extra={"receipt": str(message.receipt), "reason": failure.reason})

    def handled(self, handled: Handled, at: int) -> None:
        self._left_out(handled)
        if handled.decision:
            self._counts[decided(handled.decision)] += 1
            # Of what comes again in part, the whole has been decided before.
            if not isinstance(handled.message, PartMessage):
                self._events.add(_envelope_event(handled, handled.decision, at))
        for notification, result in handled.results:
            self._counts[decided(result.decision)] += 1
            self._events.add(_notification_event(notification, result, at))

    def close(self) -> None:
        lost = self._events.flush()
        if lost:
            # The limits may be among them: record them again.
            self._networks.clear()
            self._counts[Metric.EVENTS_LOST] += lost
        for name, count in self._counts.items():
            self._metrics.add_metric(name, MetricUnit.Count, count)
        self._counts.clear()
        flush(self._metrics)

    def _left_out(self, handled: Handled) -> None:
        """Whom an envelope did not reach, and would not at any further attempt."""
        for name, reason in handled.left_out.items():
            self._counts[Metric.RECEIVERS_UNREADABLE] += 1
            fields = {"receipt": str(handled.message.receipt), "subscription_id": name, "reason": reason}
            self._logger.error("receiver unreadable", extra=fields)


def _envelope_event(handled: Handled, decision: EnvelopeDecision, at: int) -> EnvelopeDecided:
    envelope = handled.envelope
    return EnvelopeDecided(
        network=handled.message.network,
        at=at,
        receipt=handled.message.receipt,
        envelope_id=envelope.id if envelope else None,
        decision=decision,
        observed_at=handled.message.observed_at,
        sender=envelope.sender if envelope else None,
        reason=handled.reason,
    )


def _notification_event(notification: Notification, result: AdmissionResult, at: int) -> NotificationDecided:
    subscriber = notification.match.subscriber
    return NotificationDecided(
        network=notification.network,
        at=at,
        receipt=notification.receipt,
        envelope_id=notification.envelope_id,
        decision=result.decision,
        subscription_id=subscriber.subscription_id,
        client_id=subscriber.client_id,
        channel=subscriber.channel,
        sender=notification.sender,
        key=notification.match.key,
        order=result.order,
        judged_at=result.judged_at,
        counted=result.counted,
        own=notification.match.own or None,
    )
