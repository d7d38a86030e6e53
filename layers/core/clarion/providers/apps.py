"""Which apps there are, and which of them a subscription's token belongs to."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict

from clarion.decisions import Environment
from clarion.providers import apns, fcm
from clarion.providers.apns import ApnsApp
from clarion.providers.credentials import ApnsCredential, ApnsKey, Clock, Credential, GoogleAccount, GoogleCredential
from clarion.providers.fcm import FcmApp
from clarion.providers.order import Order
from clarion.providers.sender import Push
from clarion.providers.transport import Transport
from clarion.secrets import Secret
from clarion.settings import TITLE, Title

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient


class AppSettings(BaseModel):
    """An app at one provider. A subscription names it by `name`.

    `secret_id` holds an `ApnsKey` or a `GoogleAccount`. Apple's newer keys are good in one environment only, so the
    sandbox may have a key of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    secret_id: str
    bundle_id: str = ""
    sandbox_secret_id: str | None = None
    alert_title: Title = TITLE


class App(Protocol):
    """An app at one provider, in one environment. `name` also keeps its connections apart from others'.

    `presumed_gone`: so many tokens are taken for dead before the app itself is suspected of `TokenOrApp`.
    """

    presumed_gone: ClassVar[int]

    @property
    def credential(self) -> Credential: ...

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def push(self, order: Order[Any]) -> Push: ...

    def __hash__(self) -> int: ...


class Apps[SomeApp]:
    """Apps by name and environment; the first is the one meant by a subscription that names none."""

    def __init__(self, first: str, apps: Mapping[tuple[str, str], SomeApp]) -> None:
        self.first = first
        self._apps = apps

    @classmethod
    def of_all_environments(cls, settings: Sequence[AppSettings], make: Callable[[AppSettings], SomeApp]) -> Self:
        """For a provider to which Apple's environments make no difference."""
        made = {one.name: make(one) for one in settings}
        return cls(settings[0].name, {(name, each): app for name, app in made.items() for each in Environment})

    def find(self, name: str | None, environment: str | None, _token: str = "") -> SomeApp | None:
        return self._apps.get((name or self.first, environment or Environment.PRODUCTION))


def apns_apps(
    settings: Sequence[AppSettings],
    secrets: "SecretsManagerClient",
    urls: Mapping[Environment, str] = apns.URLS,
    clock: Clock = time.time,
) -> Apps[ApnsApp]:
    def make(one: AppSettings, environment: Environment) -> ApnsApp:
        sandboxed = environment is Environment.SANDBOX and one.sandbox_secret_id
        secret = Secret(secrets, sandboxed or one.secret_id, ApnsKey, clock)
        name = f"{one.name} {environment}"
        return ApnsApp(
            ApnsCredential(secret, clock),
            name=name,
            bundle_id=one.bundle_id,
            title=one.alert_title,
            url=urls[environment],
        )

    return Apps(
        settings[0].name,
        {(one.name, environment): make(one, environment) for one in settings for environment in Environment},
    )


def fcm_apps(
    settings: Sequence[AppSettings],
    secrets: "SecretsManagerClient",
    transport: Transport,
    url: str = fcm.PRODUCTION,
    clock: Clock = time.time,
) -> Apps[FcmApp]:
    def make(one: AppSettings) -> FcmApp:
        secret = Secret(secrets, one.secret_id, GoogleAccount, clock)
        credential = GoogleCredential(secret, transport, clock, lane=f"oauth {one.name}")
        return FcmApp(credential, name=one.name, title=one.alert_title, url=url)

    return Apps.of_all_environments(settings, make)
