"""Which part of the server knows which: the one place where they are put together."""

from collections import Counter

import boto3

from clarion.metrics import Metric
from clarion.networks.simplex.needs import IDENTITY
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.secrets import Secret
from ntf.bounds import Pace, Peers
from ntf.commands.wiring import commands_of
from ntf.execution import CommandHandler, Executor
from ntf.server import NtfServer
from ntf.session import Service
from ntf.settings import NtfSettings
from ntf.task import NtfTask
from ntf.tls import server_context
from ntf.turns import Turns


def wire(settings: NtfSettings) -> NtfTask:
    """Raises `SecretError` if `clarion simplex identity create` has not been called yet."""
    secret = Secret(boto3.client("secretsmanager"), settings.secrets[IDENTITY], ServerIdentity)
    return assemble(settings, secret.get(), commands_of(settings, settings.bounds.threads))


def assemble(settings: NtfSettings, identity: ServerIdentity, handler: CommandHandler) -> NtfTask:
    """One handler for all sessions: it is made once."""
    counts, bounds = Counter[Metric](), settings.bounds
    service = Service(
        identity=identity,
        context=server_context(identity),
        executor=Executor(handler, counts, threads=bounds.threads),
        peers=Peers(bounds),
        turns=Turns(bounds.blocks_at_once, Pace(bounds.task_commands_per_second, bounds.task_burst)),
        counts=counts,
    )
    return NtfTask(settings, service, NtfServer(service))
