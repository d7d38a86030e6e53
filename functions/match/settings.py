"""Match's settings from the environment; see `clarion.settings`."""

from collections.abc import Mapping

from pydantic import Field, Json

from clarion.decisions import OwnMessages
from clarion.limiter import SUBSCRIPTION_CAP, Limit
from clarion.networks import network
from clarion.settings import EventSettings, LimitSettings, PushQueues


class MatchSettings(PushQueues, EventSettings):
    """`queue_url` is the queue that the messages come from; the pages of a fan-out go to `pages_queue_url`.

    Without `dead_letter_url`, what can't be handled goes there by the queue's own redrive policy, after its retries.

    An envelope that still fails when it is received for the `max_receives`-th time is dead-lettered at once.
    `fan_out_page` is how many subscriptions one invocation matches with an envelope. `own_messages` are by app,
    those of `first_app` for who names none. `limits` replace the networks' own for a pair of sender and client. A
    subscription gets `subscription_cap` notifications in any `subscription_cap_seconds`, and at most about twice as
    many: `match.caps`. `concurrency` is how many workers run at once.
    """

    table_prefix: str
    queue_url: str
    pages_queue_url: str
    oversize_bucket: str
    dead_letter_url: str | None = None
    concurrency: int = Field(default=30, gt=0)
    max_receives: int | None = Field(default=None, gt=0)
    fan_out_page: int = Field(default=250, gt=0)
    first_app: str = ""
    own_messages: Json[Mapping[str, OwnMessages]] = Field(default={}, validate_default=False)
    limits: Json[Mapping[str, LimitSettings]] = Field(default={}, validate_default=False)
    subscription_cap: int = Field(default=SUBSCRIPTION_CAP.count, gt=0)
    subscription_cap_seconds: int = Field(default=SUBSCRIPTION_CAP.window // 1000, gt=0)

    def limit(self, name: str) -> Limit | None:
        """The network's limit for a pair, if it has one."""
        configured = self.limits.get(name)
        return configured.limit if configured else network(name).limit

    def takes_own(self, app: str | None) -> bool:
        """Whether that app has own messages delivered."""
        return self.own_messages.get(app or self.first_app) is OwnMessages.DELIVER

    @property
    def cap(self) -> Limit:
        return Limit(self.subscription_cap, self.subscription_cap_seconds * 1000, cooldown=0)
