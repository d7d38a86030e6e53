"""What Zulip's router reads from its environment."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, Json

from clarion.channels import Channel
from clarion.networks.settings import ServerRouterSettings
from clarion.settings import EventSettings


class ServerPolicy(StrEnum):
    """Which servers may register themselves: any, or those that the operator has invited."""

    OPEN = "open"
    INVITED = "invited"


class ZulipSettings(EventSettings, ServerRouterSettings):
    """Quotas are those of a server that has none of its own. No device is registered whose app is not there."""

    push_queues: Json[Mapping[Channel, str]]
    server_policy: ServerPolicy = ServerPolicy.INVITED
    devices_per_server: int = Field(default=20_000, gt=0)
    """With those that ended in the last 30 days."""
    pushes_per_minute: int = Field(default=60_000, gt=0)
    """Of one server."""
    body_bytes: int = Field(default=5_000_000, gt=0)
