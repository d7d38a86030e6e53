"""From a request to the content of its reply."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from clarion.faults import AWS_ERRORS, describe
from clarion.networks import SIMPLEX
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import NtfRequest, refusal
from clarion.networks.simplex.ntf_commands import (
    NtfCommand,
    NtfRefusal,
    PlainCommand,
    RegisterToken,
    ReplaceToken,
    ScheduleWakeUps,
    SubscribeQueue,
    VerifyToken,
)
from clarion.secrets import SecretError
from ntf.commands import registration, subscription, token, verification
from ntf.commands.store import NtfStore

logger = Logger(service=SIMPLEX)


@dataclass(frozen=True, slots=True)
class NtfCommands:
    """Several threads may have requests executed at once."""

    store: NtfStore

    def execute(self, request: NtfRequest) -> bytes:
        """The content of the reply. Raises nothing: what AWS doesn't do now is `ERR STORE`, a bug `ERR INTERNAL`."""
        try:
            return _execute(self.store, request, request.command)
        except NtfRefusal as refused:
            return refusal(refused.error)
        except (*AWS_ERRORS, SecretError) as error:
            logger.warning("command failed", command=_name(request.command), reason=describe(error))
            return refusal(ErrorType.STORE)
        except Exception as error:  # noqa: BLE001 - one row or one agent must not end the session of others
            # Without the error's text, which may quote what was received.
            logger.error("command failed", command=_name(request.command), reason=type(error).__name__)  # noqa: TRY400
            return refusal(ErrorType.INTERNAL)


def _execute(store: NtfStore, request: NtfRequest, command: NtfCommand) -> bytes:
    match command:
        case RegisterToken():
            return registration.register(store, request, command)
        case ReplaceToken():
            return registration.replace(store, request, command)
        case VerifyToken():
            return verification.verify(store, request, command)
        case ScheduleWakeUps():
            return token.schedule(store, request, command)
        case SubscribeQueue():
            return subscription.subscribe(store, request, command)
    return _PLAIN[command](store, request)


_PLAIN: Mapping[
    PlainCommand, Callable[[NtfStore, NtfRequest], bytes]
] = {  # a ping is answered before: it waits for nothing
    PlainCommand.CHECK_TOKEN: token.check,
    PlainCommand.DELETE_TOKEN: token.delete,
    PlainCommand.CHECK_SUBSCRIPTION: subscription.check,
    PlainCommand.DELETE_SUBSCRIPTION: subscription.delete,
}


def _name(command: NtfCommand) -> str:
    return command.value if isinstance(command, PlainCommand) else type(command).__name__
