"""A batch of commands, each by itself: one that fails comes again, and at last goes among the dead letters."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from clarion import sqs
from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.messages import CommandMessage
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.commands import (
    NotifyCommand,
    RelayCommand,
    WalletConnectCommand,
    read_command,
)
from clarion.secrets import SecretError
from clarion.sqs import Received
from walletconnect.key_server import KeyServerUnavailable
from walletconnect.notify_commands import NotifyCommandHandler
from walletconnect.outbox import NotifyOutbox, NotSent
from walletconnect.relay_commands import RelayCommandHandler
from walletconnect.subscription_changes import ContendedRow

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

NO_COMMAND = "no command of WalletConnect"
FIRST_DELAY, LONGEST_DELAY = 10, 900
"""Seconds."""
_MAY_PASS = (KeyServerUnavailable, NotSent, ContendedRow, SecretError)
"""Their texts are ours, and hold nothing of what was received."""

logger = Logger(service=WALLETCONNECT)


class ReceivedCommand(NamedTuple):
    """`command` is None if it is none. `sent_at` is in UNIX milliseconds: the same however often it comes."""

    received: Received
    command: WalletConnectCommand | None
    sent_at: int

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        received = Received.of(record)
        sent_at = int(record["attributes"].get("SentTimestamp", now_ms()))
        return cls(received, _command_of(received.body), sent_at)

    def is_of_wallet(self) -> bool:
        """What wallets ask may wait for key servers, and so comes after what dapps ask."""
        return isinstance(self.command, RelayCommand)


def retry_delay(receives: int) -> int:
    """Seconds until a message that failed is received again: soon at first, for most faults pass, and ever later."""
    return min(FIRST_DELAY << receives - 1, LONGEST_DELAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWorker:
    """`relay_commands` handles what comes from wallets, `notify_commands` what comes from dapps."""

    relay_commands: RelayCommandHandler
    notify_commands: NotifyCommandHandler
    sqs: "SQSClient"
    queue_url: str
    dead_letter_url: str
    max_receives: int

    @property
    def outbox(self) -> NotifyOutbox:
        """That of both handlers."""
        return self.notify_commands.outbox

    def handle(self, records: Sequence[Mapping[str, Any]], until: float = float("inf")) -> list[str]:
        """The ids of the messages that are to come again. Nothing is begun after `until`, of the monotonic clock."""
        self.relay_commands.key_servers.begin_batch()
        delays = dict[str, tuple[str, float]]()
        for one in sorted(map(ReceivedCommand.of, records), key=ReceivedCommand.is_of_wallet):
            delay = self._handle(one) if time.monotonic() <= until else 0
            if delay is not None:
                delays[one.received.message_id] = one.received.receipt_handle, delay
        if delays:
            sqs.change_visibility(self.sqs, self.queue_url, delays.values())
        return list(delays)

    def _handle(self, one: ReceivedCommand) -> float | None:
        """None if the message is done with, else seconds until it is to come again."""
        received, command = one.received, one.command
        reason = NO_COMMAND if command is None else self._failure(command, one)
        if reason is None:
            return None
        logger.warning("failed", kind=command.kind if command else None, reason=reason, receives=received.receives)
        is_last = command is None or received.receives >= self.max_receives
        return None if is_last and self._dead_letter(received, reason) else retry_delay(received.receives)

    def _failure(self, command: WalletConnectCommand, one: ReceivedCommand) -> str | None:
        retried = one.received.receives > 1
        try:
            if isinstance(command, NotifyCommand):
                self.notify_commands.handle(command, retried=retried)
            else:
                self.relay_commands.handle(command, one.sent_at, retried=retried)
        except AWS_ERRORS as error:
            return describe(error)
        except _MAY_PASS as error:
            return f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - what one wallet or one row has made up must not fail the others
            return type(error).__name__
        return None

    def _dead_letter(self, received: Received, reason: str) -> bool:
        return sqs.send(self.sqs, self.dead_letter_url, [sqs.dead_letter(received.body, reason)]) == [None]


def _command_of(body: str) -> WalletConnectCommand | None:
    try:
        message = CommandMessage.model_validate_json(body)
        return read_command(message.content) if message.network == WALLETCONNECT else None
    except ValidationError:
        return None
