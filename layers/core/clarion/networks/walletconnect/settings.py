"""What a deployment says of its Notify server, and how the server's functions read it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Json

from clarion.networks.settings import NetworkSettings

_HOST = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
type HostName = Annotated[str, Field(pattern=rf"^{_HOST}$")]


class WalletConnectOptions(BaseModel):
    """`domain` is the Notify server's, where its `did.json` lies and where notifications link to.

    Messages are published at `relay_url`, whose operator knows us by `relay_project_id`. Identity keys are
    looked up at `key_servers`; those that are `private_key_servers` may have a private address.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    domain: HostName
    relay_url: Annotated[str, Field(pattern=rf"^https://{_HOST}(?::[1-9][0-9]{{0,4}})?$")]
    relay_project_id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    key_servers: Annotated[tuple[HostName, ...], Field(min_length=1)]
    private_key_servers: tuple[HostName, ...] = ()


class WalletConnectSettings(NetworkSettings):
    """Of both functions. `ca_file` replaces the public authorities."""

    options: Json[WalletConnectOptions]
    ca_file: str | None = None
