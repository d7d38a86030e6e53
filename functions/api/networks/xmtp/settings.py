"""What XMTP's router reads from its environment."""

from api.settings import ClientSettings
from clarion.networks.settings import ClientRouterSettings


class XmtpSettings(ClientSettings, ClientRouterSettings):
    """`environment` is where Apple made the tokens of clients that don't say so. Events and clean-up are there."""

    cleanup_queue_url: str
