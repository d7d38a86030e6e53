"""What XMTP's router reads from its environment."""

from api.settings import ClientSettings
from clarion.networks.settings import OwnMessages, RouterSettings


class XmtpSettings(ClientSettings, RouterSettings):
    """`environment` is where Apple made the tokens of clients that don't say so.

    `own_messages` is by the app's name; registrations that name no app are of `first_app`.
    """

    events_stream: str
    cleanup_queue_url: str
    first_app: str

    @property
    def delivers_own_messages(self) -> bool:
        """Whether any app does."""
        return OwnMessages.DELIVER in self.own_messages.values()

    def keeps_keys(self, app: str | None) -> bool:
        return self.own_messages.get(app or self.first_app) is not OwnMessages.DELIVER
