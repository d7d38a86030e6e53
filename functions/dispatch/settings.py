from typing import Annotated

from pydantic import AfterValidator

from clarion.decisions import NotifyType
from clarion.payload import TITLE
from clarion.providers import apns, fcm
from clarion.settings import Settings

Origin = Annotated[str, AfterValidator(lambda url: url.rstrip("/"))]
"""A URL that paths are appended to."""


class DispatchSettings(Settings):
    """`ca_file` replaces the public authorities. Without `dead_letter_url` a refused push goes the queue's own way."""

    table_prefix: str
    queue_url: str
    notify_type: NotifyType
    events_stream: str
    provider_secret_id: str
    bundle_id: str
    alert_title: str = TITLE
    apns_url: Origin = apns.PRODUCTION
    fcm_url: Origin = fcm.PRODUCTION
    ca_file: str | None = None
    dead_letter_url: str | None = None
