"""What the commands are made of in a deployment."""

from typing import TYPE_CHECKING, cast

from botocore.config import Config

from clarion import aws, tables
from clarion.channels import Channel
from clarion.event_log import FIREHOSE_IN_TIME, EventWriter
from clarion.networks.simplex.needs import ITEMS, STORAGE_KEY
from clarion.networks.simplex.settings import SimplexSettings
from clarion.networks.simplex.tables import MODELS
from clarion.secrets import Secret, SharedSecret
from clarion.settings import EventSettings
from ntf.commands.replies import NtfCommands
from ntf.commands.store import NtfStore

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

TABLE_SECONDS = 3.0
IN_TIME = Config(connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2})
"""By default the SDK waits for a minute, five times: as long would a service that hangs keep the threads from all commands."""


class NtfCommandSettings(EventSettings, SimplexSettings):
    """The queues of commands and of pushes by APNs are required."""

    command_queue_url: str


def commands_of(settings: NtfCommandSettings, threads: int) -> NtfCommands:
    """`threads` are how many commands are executed at once."""
    connection = tables.bind(settings.table_prefix, pool=threads, seconds=TABLE_SECONDS, own=MODELS)
    session, of_each = connection.session, Config(max_pool_connections=threads)
    sqs = aws.sqs(session, IN_TIME.merge(of_each))
    secrets = cast("SecretsManagerClient", session.create_client("secretsmanager", config=IN_TIME.merge(of_each)))
    firehose = aws.firehose(session, FIREHOSE_IN_TIME.merge(of_each))
    return NtfCommands(
        NtfStore(
            connection=connection,
            secret=Secret(secrets, settings.secrets[STORAGE_KEY], SharedSecret),
            options=settings.options,
            sqs=sqs,
            push_queue_url=settings.push_queues[Channel.APNS],
            command_queue_url=settings.command_queue_url,
            items_table=f"{settings.table_prefix}{ITEMS}",
            events=EventWriter(firehose, sqs, settings),
            stage=settings.stage,
        )
    )
