"""What a deployment says of its NTF server, and how whoever runs for it reads that."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Json

from clarion.networks.settings import NetworkSettings
from clarion.networks.simplex.addresses import NTF_PORT

type NtfHost = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$")]


class SimplexOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: Annotated[tuple[NtfHost, ...], Field(min_length=1)]
    """The server's public names, first the one that clients are given."""
    app: str
    """The configured app that Apple's tokens are of."""
    port: Annotated[int, Field(gt=0, le=0xFFFF)] = NTF_PORT
    """Where the server is reached."""
    sandbox_provider: bool = False
    """Whether tokens of Apple's sandbox are taken: its key, or one of its own for the sandbox, has to be good there."""
    test_provider: bool = False
    """Whether tokens of a test's stand-in are taken."""
    allow_loopback: bool = False
    """Whether SMP servers may have an address of this machine's own."""


LOCAL_OPTIONS = ("test_provider", "allow_loopback")
"""Only the emulator's environment takes these."""


class SimplexSettings(NetworkSettings):
    """Of the worker and the NTF server. `ca_file` replaces the public authorities."""

    options: Json[SimplexOptions]
    ca_file: str | None = None
