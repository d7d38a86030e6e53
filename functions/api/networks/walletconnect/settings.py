"""What the dapps' API reads from its environment."""

from pydantic import Field

from clarion.networks.settings import RouterSettings
from clarion.networks.walletconnect.settings import WalletConnectSettings


class DappApiSettings(RouterSettings, WalletConnectSettings):
    command_queue_url: str
    body_bytes: int = Field(default=500_000, gt=0)
