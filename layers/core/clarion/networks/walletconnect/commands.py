"""The commands of WalletConnect: what came by the relay, from ingest, and what a dapp asked for, from the router.

A command that comes twice has the same effect as one that comes once: all that goes out for it follows from it.
"""

from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from clarion.messages import CommandMessage, Message, Milliseconds
from clarion.networks import WALLETCONNECT, Command

ACCOUNTS = 25
"""The most that one notification's command is for."""


class RelayCommand(Message):
    """A message that the relay handed over: an envelope in base64. It is `replayed` if it waited in the mailbox.

    `published_at` is the relay's time.
    """

    kind: Literal["relay"] = "relay"
    topic: str
    message: str = Field(repr=False)
    tag: int
    published_at: Milliseconds
    replayed: bool = False


def message_digest(topic: str, message: str) -> bytes:
    """The SHA-256 that a message of the relay is known by: the relay may hand over the same one again."""
    return sha256(f"{topic} {message}".encode()).digest()


class NotifyAccount(Message):
    """Whom a notification is for. `account` is spelled as the dapp spells it; `number` is the notification's there."""

    account: str
    subscription_id: str
    number: int


class DappNotification(Message):
    """As the dapp gave it. `id` is its `notification_id`, or ours if it gave none; `type` is a UUID."""

    id: str
    type: str
    title: str = Field(repr=False)
    body: str = Field(repr=False)
    icon: str | None = Field(default=None, repr=False)
    url: str | None = Field(default=None, repr=False)


class NotifyCommand(Message):
    """One notification for some subscribers of an app, which is named by its domain.

    `issued_at` is when its id was first used: also of a repetition.
    """

    kind: Literal["notify"] = "notify"
    project_id: str
    app: str
    notification: DappNotification
    accounts: Annotated[tuple[NotifyAccount, ...], Field(min_length=1, max_length=ACCOUNTS)]
    issued_at: Milliseconds

    def number_for(self, subscription_id: str) -> int:
        """Of the notification, for one of the accounts."""
        return next(one.number for one in self.accounts if one.subscription_id == subscription_id)


type WalletConnectCommand = RelayCommand | NotifyCommand

_COMMANDS: TypeAdapter[WalletConnectCommand] = TypeAdapter(Annotated[WalletConnectCommand, Field(discriminator="kind")])


def command_of(command: WalletConnectCommand) -> Command:
    """As a source hands it to ingest."""
    return Command(WALLETCONNECT, command.to_json().encode())


def message_of(command: WalletConnectCommand) -> CommandMessage:
    """As it lies on the queue of commands."""
    return CommandMessage(network=WALLETCONNECT, content=command.to_json().encode())


def read_command(content: bytes) -> WalletConnectCommand:
    """Raises `pydantic.ValidationError` for anything else."""
    return _COMMANDS.validate_json(content)
