"""Match's settings from the environment; see `clarion.settings`."""

from collections.abc import Mapping

from pydantic import Field, Json

from clarion.limiter import SUBSCRIPTION_CAP, Limit
from clarion.networks import network
from clarion.settings import LimitSettings, PushQueues


class MatchSettings(PushQueues):
    """`queue_url` is the queue that the messages come from; the pages of a fan-out go to `pages_queue_url`.

    Without `dead_letter_url`, what can't be handled goes there by the queue's own redrive policy, after its retries.

    An envelope that still fails when it is received for the `max_receives`-th time is dead-lettered at once.
    `fan_out_page` is how many subscriptions one invocation matches with an envelope. `limits` replace the networks' own
    for a pair of sender and client. A subscription gets `subscription_cap` notifications in any
    `subscription_cap_seconds`, and at most about twice as many: `match.caps`. `concurrency` is how many workers run at
    once.
    """

    table_prefix: str
    queue_url: str
    pages_queue_url: str
    events_stream: str
    oversize_bucket: str
    dead_letter_url: str | None = None
    concurrency: int = Field(default=30, gt=0)
    max_receives: int | None = Field(default=None, gt=0)
    fan_out_page: int = Field(default=250, gt=0)
    limits: Json[Mapping[str, LimitSettings]] = Field(default={}, validate_default=False)
    subscription_cap: int = Field(default=SUBSCRIPTION_CAP.count, gt=0)
    subscription_cap_seconds: int = Field(default=SUBSCRIPTION_CAP.window // 1000, gt=0)

    def limit(self, name: str) -> Limit | None:
        """The network's limit for a pair, if it has one."""
        configured = self.limits.get(name)
        return configured.limit if configured else network(name).limit

    @property
    def cap(self) -> Limit:
        return Limit(self.subscription_cap, self.subscription_cap_seconds * 1000, cooldown=0)
