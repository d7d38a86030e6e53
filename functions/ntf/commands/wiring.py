"""What the commands are made of in a deployment."""

from clarion import aws, tables
from clarion.channels import Channel
from clarion.event_log import EventWriter
from clarion.networks.simplex.needs import ITEMS, STORAGE_KEY
from clarion.networks.simplex.settings import SimplexSettings
from clarion.networks.simplex.tables import MODELS
from clarion.secrets import Secret, SharedSecret
from clarion.settings import EventSettings
from ntf.commands.replies import NtfCommands
from ntf.commands.store import NtfStore


class NtfCommandSettings(EventSettings, SimplexSettings):
    """The queues of commands and of pushes by APNs are required."""

    command_queue_url: str


def commands_of(settings: NtfCommandSettings, threads: int) -> NtfCommands:
    """`threads` are how many commands are executed at once."""
    connection = tables.bind(settings.table_prefix, pool=threads, own=MODELS)
    session = connection.session
    sqs = aws.sqs(session, pool=threads)
    return NtfCommands(
        NtfStore(
            connection=connection,
            secret=Secret(aws.secrets(session, pool=threads), settings.secrets[STORAGE_KEY], SharedSecret),
            options=settings.options,
            sqs=sqs,
            push_queue_url=settings.push_queues[Channel.APNS],
            command_queue_url=settings.command_queue_url,
            items_table=f"{settings.table_prefix}{ITEMS}",
            events=EventWriter(aws.firehose(session, pool=threads), sqs, settings),
            stage=settings.stage,
        )
    )
