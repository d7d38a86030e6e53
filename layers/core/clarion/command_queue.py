"""A batch of a network's commands, each by itself: one that fails comes again, and at last goes among the dead letters.

carried out ──▶ done
fails       ──▶ again, ever later ──at the last attempt──▶ dead letter
no command  ──▶ dead letter
no time     ──▶ again, at once
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import ValidationError

from clarion import sqs
from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.messages import CommandMessage
from clarion.secrets import SecretError
from clarion.sqs import Received

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

NO_COMMAND = "no command of this network"
FIRST_DELAY, LONGEST_DELAY = 5, 900
"""Seconds."""

log = logging.getLogger(__name__)


class MayPassError(Exception):
    """Why a command can't be carried out now. The text is ours, and holds nothing of what was received."""


class OutOfTimeError(Exception):
    """A command has begun, and goes on when it comes again."""


class ReceivedCommand[Command](NamedTuple):
    """`command` is None if it is none. `sent_at` is in UNIX milliseconds: the same however often it comes."""

    received: Received
    command: Command | None
    sent_at: int

    @classmethod
    def of(cls, record: Mapping[str, Any], network: str, read: Callable[[bytes], Command]) -> Self:
        """`read` may raise `ValidationError`."""
        received = Received.of(record)
        sent_at = int(record["attributes"].get("SentTimestamp", now_ms()))
        return cls(received, _command_of(received.body, network, read), sent_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandQueue:
    """A message is a dead letter after `max_receives` attempts."""

    sqs: "SQSClient"
    url: str
    dead_letter_url: str
    max_receives: int

    def handle[Command](
        self,
        batch: Iterable[ReceivedCommand[Command]],
        carry_out: Callable[[Command, ReceivedCommand[Command]], None],
        until: float,
    ) -> list[str]:
        """The ids of the messages that are to come again.

        `carry_out` may raise anything. Nothing is begun after `until`, in seconds of the monotonic clock.
        """
        delays = dict[str, tuple[str, float]]()
        for one in batch:
            delay = self._handle(one, carry_out) if time.monotonic() <= until else 0
            if delay is not None:
                delays[one.received.message_id] = one.received.receipt_handle, delay
        if delays:
            sqs.change_visibility(self.sqs, self.url, delays.values())
        return list(delays)

    def _handle[Command](
        self, one: ReceivedCommand[Command], carry_out: Callable[[Command, ReceivedCommand[Command]], None]
    ) -> float | None:
        """None if the message is done with, else seconds until it is to come again."""
        received, command = one.received, one.command
        try:
            reason = NO_COMMAND if command is None else _failure(lambda: carry_out(command, one))
        except OutOfTimeError:
            return 0
        if reason is None:
            return None
        kind = None if command is None else type(command).__name__
        log.warning("failed", extra={"kind": kind, "reason": reason, "receives": received.receives})
        is_last = command is None or received.receives >= self.max_receives
        return None if is_last and self._dead_letter(received, reason) else retry_delay(received.receives)

    def _dead_letter(self, received: Received, reason: str) -> bool:
        return sqs.send(self.sqs, self.dead_letter_url, [sqs.dead_letter(received.body, reason)]) == [None]


def retry_delay(receives: int) -> int:
    """Seconds until a message that failed is received again: soon at first, for most faults pass, and ever later."""
    return min(FIRST_DELAY << receives - 1, LONGEST_DELAY)


def _failure(carry_out: Callable[[], None]) -> str | None:
    """Why it failed, if it did. Raises `OutOfTimeError` alone."""
    try:
        carry_out()
    except OutOfTimeError:
        raise
    except AWS_ERRORS as error:
        return describe(error)
    except (MayPassError, SecretError) as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - what one sender or one row has made up must not fail the others
        return type(error).__name__
    return None


def _command_of[Command](body: str, network: str, read: Callable[[bytes], Command]) -> Command | None:
    try:
        message = CommandMessage.model_validate_json(body)
        return read(message.content) if message.network == network else None
    except ValidationError:
        return None
