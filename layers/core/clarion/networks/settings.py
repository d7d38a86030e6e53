"""What the functions of a network (`clarion.networks.needs`) read from their environment."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field, Json

from clarion.channels import Channel
from clarion.command_queue import CommandQueue
from clarion.decisions import Environment
from clarion.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class NetworkSettings(Settings):
    """`secrets` are the ids of the network's secrets by their names. What the network doesn't ask for isn't there."""

    network: str
    table_prefix: str
    secrets: Json[Mapping[str, str]] = Field(default_factory=dict)
    envelopes_queue_url: str | None = None
    push_queues: Json[Mapping[Channel, str]] = Field(default_factory=dict)
    command_queue_url: str | None = None
    cleanup_queue_url: str | None = None
    events_stream: str | None = None
    late_events_queue_url: str | None = None


class RouterSettings(NetworkSettings):
    """With `origin_secret_id`, only what CloudFront sends is answered."""

    origin_secret_id: str | None = None


class ClientRouterSettings(RouterSettings):
    """Of a router with routes for clients, whose allowances it reads as well: see `api.settings.ClientSettings`.

    `apps` are the names of those that each channel reaches. Who names no app is of `first_app`, and who says no
    environment is of `environment`.
    """

    apps: Json[Mapping[Channel, frozenset[str]]]
    first_app: str
    environment: Environment | None = None


class ServerRouterSettings(RouterSettings):
    """Of a router with routes for servers, whose apps' tokens come without the name of an app.

    `apns_apps` are the names of the apps that APNs reaches, by their bundle ids; `fcm_app` is the one of all Android phones.
    """

    apns_apps: Json[Mapping[str, str]] = Field(default_factory=dict)
    fcm_app: str | None = None


class WorkerSettings(NetworkSettings):
    """A message is a dead letter after `max_receives` attempts."""

    queue_url: str
    dead_letter_url: str
    max_receives: int = Field(gt=0)

    def command_queue(self, sqs: "SQSClient") -> CommandQueue:
        return CommandQueue(
            sqs=sqs, url=self.queue_url, dead_letter_url=self.dead_letter_url, max_receives=self.max_receives
        )
