"""Settings come from the environment, once, typed; what is missing, unknown or of the wrong type stops the start."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from clarion.channels import CHANNELS, Channel
from clarion.limiter import Limit

PREFIX = "CLARION_"
EMULATED_STAGE = "local"
"""Of the deployment in the emulator, and of what runs in none. It alone has stand-ins for the providers."""

Origin = Annotated[str, AfterValidator(lambda url: url.rstrip("/"))]
"""A URL that paths are appended to."""

_HOST = r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?"
_URL = rf"https://{_HOST}(?::[1-9][0-9]{{0,4}})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?"


def _webhook_url(text: str) -> str:
    if not re.fullmatch(_URL, text):
        raise ValueError("not an https URL of a lower-case host and a path, without user, query and fragment")
    return text


WebhookUrl = Annotated[str, AfterValidator(_webhook_url)]
"""Where the channel `webhook` leads. Kept in the clear, it holds no password or key: the secret is for those."""

TITLE = "Polkadot App"
type Title = Annotated[str, Field(min_length=1, max_length=200)]
"""An alert's. A lone surrogate is no text to pydantic, and 200 characters fit into every payload, however escaped."""


PUSHES_PER_TOKEN_PER_MINUTE = 60
"""From all that push to it directly, unless a deployment says otherwise."""


class LimitSettings(BaseModel):
    """How many notifications a pair of sender and client gets in a window, and how long none after one too many."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    count: int = Field(gt=0)
    window_seconds: int = Field(gt=0)
    cooldown_seconds: int = Field(ge=0)

    @property
    def limit(self) -> Limit:
        return Limit(self.count, self.window_seconds * 1000, self.cooldown_seconds * 1000)


class NodeBudget(BaseModel):
    """How much one node may show: bytes of an envelope, and of all in a second, on average."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    message_bytes: PositiveInt
    bytes_per_second: PositiveInt


class Settings(BaseModel):
    """Base of every component's settings: field `queue_url` is read from `CLARION_QUEUE_URL`.

    `stage` names the deployment; it is a dimension of every metric, for several may share an account.
    """

    # A component reads its own: those that it builds upon are never built.
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", hide_input_in_errors=True)

    stage: str = EMULATED_STAGE

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Raise `pydantic.ValidationError`, naming each variable at fault but no value."""
        found = {name: value for name, value in environment.items() if name.startswith(PREFIX)}
        return cls.model_validate({name.removeprefix(PREFIX).lower(): value for name, value in found.items()})


class EventSettings(Settings):
    """What whoever emits events reads: see `clarion.event_log`."""

    events_stream: str
    late_events_queue_url: str


class PushQueues(Settings):
    """The queues of pushes, of the channels that are deployed.

    Each channel's URL is read from a variable of its own, such as `CLARION_APNS_QUEUE_URL`.
    """

    push_queues: Mapping[Channel, str]

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, found: Mapping[str, object]) -> Mapping[str, object]:
        urls = {channel: found[name] for channel in CHANNELS if (name := _queue_url(channel)) in found}
        rest = {name: value for name, value in found.items() if name not in map(_queue_url, CHANNELS)}
        if not urls:
            raise ValueError(f"missing: {', '.join(map(_queue_url, CHANNELS))}, or some of them")
        return rest | {"push_queues": urls}


def _queue_url(channel: Channel) -> str:
    return f"{channel}_queue_url"
