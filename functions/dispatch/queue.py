"""Messages as SQS delivers them, and where those go that are not finished.

    hot queue ──▶ attempt ─┬─▶ done
      ▲ └ hidden, retry ───┤
      │                  ├─▶ held queue, delayed ──▶ attempt …
      │                  └─▶ dead letters
      └── redrive ────────────────┘

A message that is hidden counts as in flight, of which SQS allows a queue 120,000; one that is delayed does not. So what
waits for somebody to fix an app waits in the held queue, and holds up nobody else's pushes. Wake-ups are sent there in
the first place, as a great many are due at once. Each move is a sending and then a deletion: a crash between the two
repeats a push, recognisably, and loses none.
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pydantic import ValidationError

from clarion import sqs
from clarion.decisions import Purpose
from clarion.messages import PushMessage
from clarion.sqs import Received, SqsMessage

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

ATTEMPTS_ATTRIBUTE = "attempts"
FAULTS_ATTRIBUTE = "token_faults"
"""The attributes of a held message that count its attempts so far, and those among them that may be its token's fault."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message as SQS hands it over; `attempt` counts from 1. `message` is None if it can't be read.

    `held`: it belongs to the held queue, where it was before, or waits its turn as all wake-ups do. `token_faults` is how
    many attempts before this one met a fault that may be the token's alone.
    """

    received: Received
    attempt: int
    message: PushMessage | None
    held: bool = False
    token_faults: int = 0

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        received = Received.of(record)
        try:
            message = PushMessage.model_validate_json(received.body)
        except ValidationError:
            message = None
        before = int(received.attributes.get(ATTEMPTS_ATTRIBUTE, 0))
        return cls(
            received=received,
            attempt=before + received.receives,
            message=message,
            held=before > 0 or (message is not None and message.purpose is Purpose.WAKE_UP),
            token_faults=int(received.attributes.get(FAULTS_ATTRIBUTE, 0)),
        )


class PushQueue:
    """`url` is the queue that the messages come from; it has its own way to the dead letters, and so without a URL for it.

    Several requests run at once in `executor`.
    """

    def __init__(
        self,
        sqs: "SQSClient",
        url: str,
        dead_letter_url: str | None,
        held_url: str | None,
        executor: Executor | None = None,
    ) -> None:
        self._sqs = sqs
        self._executor = executor
        self._url = url
        self._dead_letter_url = dead_letter_url
        self._held_url = held_url

    def retry_later(self, delays: Iterable[tuple[Delivery, float]]) -> None:
        """Hide each message for so many seconds. One that SQS fails to hide comes back after the usual time."""
        hidden = [(delivery.received.receipt_handle, seconds) for delivery, seconds in delays]
        sqs.change_visibility(self._sqs, self._url, hidden, self._executor)

    def hold(self, delays: Sequence[tuple[Delivery, float]]) -> list[str]:
        """Move each message to the held queue, delayed by so many seconds; returns the ids of those left behind."""
        messages = [
            SqsMessage(
                delivery.received.body,
                {ATTEMPTS_ATTRIBUTE: delivery.attempt, FAULTS_ATTRIBUTE: delivery.token_faults},
                delay=seconds,
            )
            for delivery, seconds in delays
        ]
        return self._move(self._held_url, [delivery for delivery, _ in delays], messages)

    def dead_letter(self, refused: Sequence[tuple[Delivery, str]]) -> list[str]:
        """Move messages to the dead-letter queue, each with its reason; returns the ids of those left behind."""
        messages = [sqs.dead_letter(delivery.received.body, reason) for delivery, reason in refused]
        return self._move(self._dead_letter_url, [delivery for delivery, _ in refused], messages)

    def send_commands(self, url: str | None, commands: Sequence[tuple[Delivery, str]]) -> list[str]:
        """Send the bodies of `CommandMessage`s; returns the ids of the deliveries whose command was not sent."""
        return self._move(url, [delivery for delivery, _ in commands], [SqsMessage(body) for _, body in commands])

    def _move(self, url: str | None, deliveries: Sequence[Delivery], messages: Sequence[SqsMessage]) -> list[str]:
        if url is None:
            return [delivery.received.message_id for delivery in deliveries]
        refusals = sqs.send(self._sqs, url, messages, self._executor)
        return [delivery.received.message_id for delivery, refusal in zip(deliveries, refusals, strict=True) if refusal]
