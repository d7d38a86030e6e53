"""Which part of the server knows which: the one place where they are put together."""

from collections import Counter
from typing import TYPE_CHECKING

import boto3

from clarion.networks.simplex.needs import IDENTITY
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.secrets import Secret
from ntf.bounds import Peers
from ntf.commands.wiring import commands_of
from ntf.execution import CommandHandler, Executor
from ntf.server import NtfServer
from ntf.session import Service
from ntf.settings import NtfSettings
from ntf.task import NtfTask
from ntf.tls import server_context

if TYPE_CHECKING:
    from ntf.counts import Counts


def wire(settings: NtfSettings) -> NtfTask:
    """Raises `SecretError` if `clarion simplex identity create` has not been called yet."""
    secret = Secret(boto3.client("secretsmanager"), settings.secrets[IDENTITY], ServerIdentity)
    return assemble(settings, secret.get(), commands_of(settings, settings.bounds.threads))


def assemble(settings: NtfSettings, identity: ServerIdentity, handler: CommandHandler) -> NtfTask:
    """One handler for all sessions: it is made once."""
    counts: Counts = Counter()
    service = Service(
        identity=identity,
        context=server_context(identity),
        executor=Executor(handler, counts, threads=settings.bounds.threads),
        peers=Peers(settings.bounds),
        counts=counts,
    )
    return NtfTask(settings, service, NtfServer(service))
