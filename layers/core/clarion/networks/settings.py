"""What the functions of a network (`clarion.networks.needs`) read from their environment."""

from collections.abc import Mapping

from pydantic import Field, Json

from clarion.channels import Channel
from clarion.settings import Settings


class NetworkSettings(Settings):
    """`secrets` are the ids of the network's secrets by their names. Whatever the network doesn't ask for isn't there."""

    network: str
    table_prefix: str
    secrets: Json[Mapping[str, str]] = Field(default_factory=dict)
    push_queues: Json[Mapping[Channel, str]] = Field(default_factory=dict)
    command_queue_url: str | None = None
    cleanup_queue_url: str | None = None
    events_stream: str | None = None


class RouterSettings(NetworkSettings):
    """With `origin_secret_id`, only what CloudFront sends is answered."""

    origin_secret_id: str | None = None


class WorkerSettings(NetworkSettings):
    """A message is a dead letter after `max_receives` attempts."""

    queue_url: str
    dead_letter_url: str
    max_receives: int = Field(gt=0)
