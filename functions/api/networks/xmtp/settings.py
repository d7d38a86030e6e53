"""What XMTP's router reads from its environment."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field, Json

from api.settings import ClientSettings
from clarion.decisions import Environment
from clarion.networks.settings import RouterSettings


class OwnMessages(StrEnum):
    """Whether clients are pushed what they have sent themselves. To deliver it, no keys are needed, and none are kept."""

    SUPPRESS = "suppress"
    DELIVER = "deliver"


class XmtpSettings(ClientSettings, RouterSettings):
    """`apns_environment` is where Apple made the tokens of clients that don't say so.

    `own_messages` is by the app's name; registrations that name no app are of `first_app`.
    """

    events_stream: str
    cleanup_queue_url: str
    first_app: str
    apns_environment: Environment | None = None
    own_messages: Json[Mapping[str, OwnMessages]] = Field(default_factory=dict)

    @property
    def delivers_own_messages(self) -> bool:
        """Whether any app does."""
        return OwnMessages.DELIVER in self.own_messages.values()

    def keeps_keys(self, app: str | None) -> bool:
        return self.own_messages.get(app or self.first_app) is not OwnMessages.DELIVER
