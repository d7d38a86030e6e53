"""What XMTP's router reads from its environment."""

from api.settings import ClientSettings
from clarion.networks.settings import ClientRouterSettings, OwnMessages


class XmtpSettings(ClientSettings, ClientRouterSettings):
    """`environment` is where Apple made the tokens of clients that don't say so. Events and clean-up are there."""

    @property
    def delivers_own_messages(self) -> bool:
        """Whether any app does."""
        return OwnMessages.DELIVER in self.own_messages.values()

    def keeps_keys(self, app: str | None) -> bool:
        return self.own_messages.get(app or self.first_app) is not OwnMessages.DELIVER
