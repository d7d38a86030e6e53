"""What Zulip's router reads from its environment."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, Json

from clarion.channels import Channel
from clarion.networks.settings import RouterSettings
from clarion.settings import EventSettings


class ServerPolicy(StrEnum):
    """Which servers may register themselves: any, or those that the operator has invited."""

    OPEN = "open"
    INVITED = "invited"


class ZulipSettings(EventSettings, RouterSettings):
    """Quotas are a server's that has none of its own.

    `apns_apps` are the names of the apps that APNs reaches by their bundle ids; `fcm_app` is the name of the one that all
    Android phones have. Without them no device is registered that would need them.
    """

    push_queues: Json[Mapping[Channel, str]]
    apns_apps: Json[Mapping[str, str]] = Field(default_factory=dict)
    fcm_app: str | None = None
    server_policy: ServerPolicy = ServerPolicy.INVITED
    devices_per_server: int = Field(default=20_000, gt=0)
    """With those that ended in the last 30 days."""
    pushes_per_minute: int = Field(default=60_000, gt=0)
    """Of one server."""
    body_bytes: int = Field(default=5_000_000, gt=0)
