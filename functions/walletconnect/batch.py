"""A batch of commands: which comes first, and what handles it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from clarion.command_queue import CommandQueue, ReceivedCommand
from clarion.generations import NEVER
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect.commands import NotifyCommand, RelayCommand, WalletConnectCommand, read_command
from walletconnect.notify_commands import NotifyCommandHandler
from walletconnect.outbox import NotifyOutbox
from walletconnect.relay_commands import RelayCommandHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWorker:
    """`relay_commands` handles what comes from wallets, `notify_commands` what comes from dapps."""

    relay_commands: RelayCommandHandler
    notify_commands: NotifyCommandHandler
    queue: CommandQueue

    @property
    def outbox(self) -> NotifyOutbox:
        """That of both handlers."""
        return self.notify_commands.outbox

    def handle(self, records: Sequence[Mapping[str, Any]], until: float = NEVER) -> list[str]:
        """The ids of the messages that are to come again. Nothing is begun after `until`, of the monotonic clock."""
        self.relay_commands.key_servers.begin_batch()
        received = map(partial(ReceivedCommand.of, network=WALLETCONNECT, read=read_command), records)
        return self.queue.handle(sorted(received, key=_is_of_wallet), self._carry_out, until)

    def _carry_out(self, command: WalletConnectCommand, one: ReceivedCommand[WalletConnectCommand]) -> None:
        retried = one.received.receives > 1
        if isinstance(command, NotifyCommand):
            self.notify_commands.handle(command, retried=retried)
        else:
            self.relay_commands.handle(command, one.sent_at, retried=retried)


def _is_of_wallet(one: ReceivedCommand[WalletConnectCommand]) -> bool:
    """What wallets ask may wait for key servers, and so comes after what dapps ask."""
    return isinstance(one.command, RelayCommand)
