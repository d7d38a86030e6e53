"""What this room's environment tells it; see `clarion.settings`."""

from pydantic import Field

from clarion.channels import Channel
from clarion.limiter import PAIR_LIMIT, SUBSCRIPTION_CAP, Limit
from clarion.settings import Settings


class MatchSettings(Settings):
    """Without `dead_letter_url` what can't be handled goes the queue's own way, by its retries.

    A statement that still fails when it is received for the `max_receives`-th time goes to the dead letters at once.
    `fan_out_page` is how many subscriptions one invocation matches with a statement. A subscription gets
    `subscription_cap` notifications in any `subscription_cap_seconds`, and at most about twice as many: `match.caps`.
    `concurrency` is how many sandboxes match in at once.
    """

    table_prefix: str
    envelopes_queue_url: str
    apns_queue_url: str
    voip_queue_url: str
    fcm_queue_url: str
    events_stream: str
    oversize_bucket: str
    dead_letter_url: str | None = None
    concurrency: int = Field(default=30, gt=0)
    max_receives: int | None = Field(default=None, gt=0)
    fan_out_page: int = Field(default=250, gt=0)
    rate_limit: int = Field(default=PAIR_LIMIT.count, gt=0)
    rate_window_seconds: int = Field(default=PAIR_LIMIT.window // 1000, gt=0)
    rate_cooldown_seconds: int = Field(default=PAIR_LIMIT.cooldown // 1000, ge=0)
    subscription_cap: int = Field(default=SUBSCRIPTION_CAP.count, gt=0)
    subscription_cap_seconds: int = Field(default=SUBSCRIPTION_CAP.window // 1000, gt=0)

    @property
    def limit(self) -> Limit:
        return Limit(self.rate_limit, self.rate_window_seconds * 1000, self.rate_cooldown_seconds * 1000)

    @property
    def cap(self) -> Limit:
        return Limit(self.subscription_cap, self.subscription_cap_seconds * 1000, cooldown=0)

    @property
    def push_queues(self) -> dict[Channel, str]:
        return {
            Channel.APNS: self.apns_queue_url,
            Channel.VOIP: self.voip_queue_url,
            Channel.FCM: self.fcm_queue_url,
        }
