"""The commands of SimpleX's worker: what became of pushes, from dispatch, and what ends or revives, from the NTF server.

A command that comes twice has the same effect as one that comes once.
"""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from clarion.decisions import Purpose, PushDecision
from clarion.messages import CommandMessage, Message, PushMessage
from clarion.networks import SIMPLEX, Command, PushAnswer

_CLIENT_PREFIX = b"simplex:"


class CodeDelivered(Message):
    """Apple took the push with a token's code.

    `token_id` is in hex. `registered_at` is when the one that was pushed to was registered or verified, in UNIX
    milliseconds: a dispatch that has read the row too early pushes to the token before.
    """

    kind: Literal["code_delivered"] = "code_delivered"
    token_id: str
    registered_at: int


class TokenDied(Message):
    """Apple says that a token is dead, by its `reason`; the rest is as above."""

    kind: Literal["token_died"] = "token_died"
    token_id: str
    reason: str | None = None
    registered_at: int


class TokenDeleted(Message):
    """A token was deleted, or is about to be: its queues are given up, if it is gone by now."""

    kind: Literal["token_deleted"] = "token_deleted"
    token_id: str


class TokenReplaced(Message):
    """A token was replaced a while ago: if it still waits for its code, its queues are kept as long as it is."""

    kind: Literal["token_replaced"] = "token_replaced"
    token_id: str


class TokenRevived(Message):
    """A token that was not is active again, or is about to be: its queues are kept, and get their rules back."""

    kind: Literal["token_revived"] = "token_revived"
    token_id: str


type SimplexCommand = CodeDelivered | TokenDied | TokenDeleted | TokenReplaced | TokenRevived

_COMMANDS: TypeAdapter[SimplexCommand] = TypeAdapter(Annotated[SimplexCommand, Field(discriminator="kind")])


def of_outcome(push: PushMessage, outcome: PushDecision, answer: PushAnswer) -> Command | None:
    """A push brings its token's death to light whatever it is for; only a code's delivery changes anything."""
    token_id, registered_at = token_id_of(push.client_id), answer.registered_at
    command: SimplexCommand
    match outcome:
        case PushDecision.TOKEN_GONE if registered_at is not None:
            command = TokenDied(token_id=token_id, reason=answer.reason, registered_at=registered_at)
        case PushDecision.DELIVERED if registered_at is not None and push.purpose is Purpose.VERIFICATION:
            command = CodeDelivered(token_id=token_id, registered_at=registered_at)
        case _:
            return None
    return Command(SIMPLEX, command.to_json().encode())


def message_of(command: SimplexCommand) -> CommandMessage:
    """As it lies on the queue of commands."""
    return CommandMessage(network=SIMPLEX, content=command.to_json().encode())


def read_command(content: bytes) -> SimplexCommand:
    """Raises `pydantic.ValidationError` for anything else."""
    return _COMMANDS.validate_json(content)


def client_id(token_id: str) -> bytes:
    """Whose the kernel's subscription of a token is."""
    return _CLIENT_PREFIX + bytes.fromhex(token_id)


def token_id_of(client: bytes) -> str:
    """Undo `client_id`."""
    return client.removeprefix(_CLIENT_PREFIX).hex()
