"""What Zulip's router reads from its environment."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, Json

from clarion.channels import Channel
from clarion.networks.settings import ServerRouterSettings
from clarion.settings import PUSHES_PER_TOKEN_PER_MINUTE, EventSettings


class ServerPolicy(StrEnum):
    """Which servers may register: any, or those that the operator has added."""

    OPEN = "open"
    INVITED = "invited"


class ZulipSettings(EventSettings, ServerRouterSettings):
    """Quotas are those of a server that has none of its own. No device is registered whose app is not there."""

    push_queues: Json[Mapping[Channel, str]]
    server_policy: ServerPolicy = ServerPolicy.INVITED
    devices_per_server: int = Field(default=20_000, gt=0)
    """With those that ended in the last 30 days."""
    pushes_per_minute: int = Field(default=12_000, gt=0)
    """Of one server: nine seconds of what a channel sends, since others' pushes wait behind them."""
    pushes_per_token_per_minute: int = Field(default=PUSHES_PER_TOKEN_PER_MINUTE, gt=0)
    """To one device token, whoever pushes."""
    realms_per_server: int = Field(default=100, gt=0)
    """That a server claims by its reports; the operator may add more."""
    body_bytes: int = Field(default=4_500_000, gt=0)
    """Lambda takes 6 MB, of a form in base64."""
