from typing import Self

from pydantic import Field, Json, model_validator

from clarion.channels import CHANNELS, Channel, Provider
from clarion.decisions import Environment
from clarion.providers import apns, fcm
from clarion.providers.apps import AppSettings
from clarion.providers.webpush_address import ServiceName
from clarion.settings import TITLE, EventSettings, Origin, Title, WebhookUrl


class DispatchSettings(EventSettings):
    """The first app is spelled out; `apps` is a JSON array of further ones (`AppSettings`).

    `ca_file` replaces the public authorities. Without `dead_letter_url` a message that can never be pushed goes the
    queue's own way to its dead-letter queue. Without `held_url` what waits for an app to be fixed stays in the queue,
    and comes back after the queue's own visibility timeout. A message is a dead letter after `max_receives` attempts,
    in the queue and the held queue together; without it, each queue counts for itself. `command_queues` is a JSON
    object: the URL of each network's queue of commands; so are `payload_secrets`: the ids of networks' secrets. `push_services` is a JSON array of further hosts that browsers'
    endpoints may have, beside those of the well-known browsers. The webhook is sent to at a public IP address only; its
    stand-in, which takes its place, may have a private one.
    """

    table_prefix: str
    queue_url: str
    channel: Channel
    cleanup_queue_url: str
    provider_secret_id: str
    sandbox_secret_id: str | None = None
    app_name: str = "first"
    bundle_id: str
    alert_title: Title = TITLE
    apps: Json[tuple[AppSettings, ...]] = ()
    apns_url: Origin = apns.URLS[Environment.PRODUCTION]
    apns_sandbox_url: Origin = apns.URLS[Environment.SANDBOX]
    fcm_url: Origin = fcm.PRODUCTION
    push_services: Json[tuple[ServiceName, ...]] = ()
    webhook_url: WebhookUrl | None = None
    webhook_stand_in_url: WebhookUrl | None = None
    ca_file: str | None = None
    dead_letter_url: str | None = None
    held_url: str | None = None
    command_queues: Json[dict[str, str]] = Field(default_factory=dict)
    payload_secrets: Json[dict[str, str]] = Field(default_factory=dict)
    max_receives: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _apps_have_names_of_their_own(self) -> Self:
        if len({app.name for app in self.all_apps}) < len(self.all_apps):
            raise ValueError("two apps have the same name")
        return self

    @model_validator(mode="after")
    def _a_webhook_has_a_url(self) -> Self:
        if CHANNELS[self.channel].provider is Provider.WEBHOOK and not (self.webhook_url or self.webhook_stand_in_url):
            raise ValueError("the webhook needs a webhook_url")
        return self

    @property
    def all_apps(self) -> tuple[AppSettings, ...]:
        first = AppSettings(
            name=self.app_name,
            secret_id=self.provider_secret_id,
            bundle_id=self.bundle_id,
            sandbox_secret_id=self.sandbox_secret_id,
            alert_title=self.alert_title,
        )
        return (first, *self.apps)
