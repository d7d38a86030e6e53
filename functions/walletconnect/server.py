"""The Notify server: what it does for each command.

from a wallet, by the relay      `relay_commands`
from a dapp, by the router       `notify_commands`
"""

from dataclasses import dataclass

from clarion.networks.walletconnect.commands import NotifyCommand, RelayCommand
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.secrets import Secret
from walletconnect.key_server import KeyServerClient
from walletconnect.notify_commands import NotifyCommandHandler
from walletconnect.outbox import NotifyOutbox
from walletconnect.relay_commands import RelayCommandHandler
from walletconnect.request_handlers import RequestHandlers


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyServer:
    """`domain` is where its `did.json` lies. What fails raises, and the command is to be handled again."""

    domain: str
    keys: Secret[ServerKeys]
    key_servers: KeyServerClient
    handlers: RequestHandlers
    outbox: NotifyOutbox

    def serve(self, command: RelayCommand, at_ms: int, *, retried: bool = False) -> None:
        """`at_ms` is when it came, in UNIX milliseconds. `retried`: it was received before."""
        handler = RelayCommandHandler(
            keys=self.keys,
            key_servers=self.key_servers,
            handlers=self.handlers,
            outbox=self.outbox,
            notify_commands=self._notify_commands,
        )
        handler.handle(command, at_ms, retried=retried)

    def notify(self, command: NotifyCommand, *, retried: bool = False) -> None:
        """`retried`: it was received before."""
        self._notify_commands.handle(command, retried=retried)

    @property
    def _notify_commands(self) -> NotifyCommandHandler:
        return NotifyCommandHandler(domain=self.domain, outbox=self.outbox)
