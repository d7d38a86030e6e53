"""The secrets that the operator fills in: whether they sign, and whether the providers know what they sign."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import boto3
from pydantic import BaseModel

from clarion.channels import CHANNELS, Channel, Provider
from clarion.decisions import Environment
from clarion.networks import FcmMessage
from clarion.providers import apns, fcm
from clarion.providers.apns import ApnsPush, PushType
from clarion.providers.apps import AppSettings, apns_apps, fcm_apps
from clarion.providers.credentials import ApnsKey, GoogleAccount, apns_token, google_assertion
from clarion.providers.fcm import FcmPush
from clarion.providers.outcomes import Answered, Misconfigured, Refused, RetryLater
from clarion.providers.sender import Push, send
from clarion.providers.transport import Transport
from clarion.providers.vapid import VapidKey, vapid_token
from clarion.providers.webhook import WebhookSecret, signature
from clarion.secrets import Secret, SecretError, SharedSecret
from clarion.settings import PREFIX
from console.deployment import Deployment
from console.doctor.names import secret_name
from console.doctor.report import Check, looked

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

FILL_IN = "fill it in: docs/operations.md#secrets"
CORRECT = "correct the secret, or the app: docs/operations.md#provider-misconfigured"
AGAIN = "ask again later, and look whether this machine reaches the provider"
NOBODY = "00" * 32
"""A token that no device has."""
NOTHING = FcmMessage(data={}, android={"priority": "high"})
PRODUCTION_ALONE = {"BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"}
"""Apple's answers to a key that it knows, but not as one of the sandbox."""

type Model = type[BaseModel]
type Sign = Callable[[Any], object]

SIGNED: Mapping[Provider, tuple[Model, Sign]] = {
    Provider.APNS: (ApnsKey, lambda key: apns_token(key, 0)),
    Provider.FCM: (GoogleAccount, lambda account: google_assertion(account, 0)),
    Provider.WEBPUSH: (VapidKey, lambda key: vapid_token(key, 0, "https://push.example.org")),
    Provider.WEBHOOK: (WebhookSecret, lambda secret: signature(secret.signing_key, "any", 0, b"")),
}


@dataclass(frozen=True)
class ProviderApps:
    """The apps at one provider, by the settings that dispatch has for them."""

    provider: Provider
    settings: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, provider: Provider, function: str) -> Self:
        configuration = boto3.client("lambda").get_function_configuration(FunctionName=function)
        variables = configuration.get("Environment", {}).get("Variables", {})
        return cls(provider, {name.removeprefix(PREFIX).lower(): value for name, value in variables.items()})

    @property
    def apps(self) -> list[AppSettings]:
        """The first is spelled out; see `DispatchSettings`."""
        first = AppSettings(
            name=self.settings["app_name"],
            secret_id=self.settings["provider_secret_id"],
            bundle_id=self.settings["bundle_id"],
            sandbox_secret_id=self.settings.get("sandbox_secret_id"),
        )
        return [first, *map(AppSettings.model_validate, json.loads(self.settings.get("apps", "[]")))]

    @property
    def secret_ids(self) -> list[str]:
        return [each for app in self.apps for each in (app.secret_id, app.sandbox_secret_id) if each]


def deployed(here: Deployment) -> Iterator[ProviderApps]:
    """Two channels may share a provider."""
    functions = {CHANNELS[Channel(each.name)].provider: each.function for each in here.queues if each.name in CHANNELS}
    return (ProviderApps.of(*each) for each in functions.items())


def filled_in(here: Deployment) -> Iterator[Check]:
    for each in deployed(here):
        for secret_id in each.secret_ids:
            yield from _of_secret(secret_id, *SIGNED[each.provider])
    if jwt := here.outputs.get("JwtSecretId"):
        yield from _of_secret(jwt, SharedSecret, str)


def _of_secret(secret_id: str, model: Model, sign: Sign) -> Iterator[Check]:
    name = f"secret {secret_name(secret_id)}"
    return looked(name, lambda: [_signing(name, secret_id, model, sign)])


def _signing(name: str, secret_id: str, model: Model, sign: Sign) -> Check:
    try:
        sign(Secret(boto3.client("secretsmanager"), secret_id, model).get())
    except SecretError as error:
        return Check(name=name, found=str(error).removeprefix(secret_id).strip(), todo=FILL_IN)
    return Check(name=name, found="filled in, and good to sign with")


def tried(here: Deployment) -> Iterator[Check]:
    """With each app's credential, as the sandbox's APNs and FCM answer it. Nobody is pushed to."""
    secrets = boto3.client("secretsmanager")
    for each in deployed(here):
        transport = Transport(each.settings.get("ca_file"))
        for app in each.apps:
            if push := _push(each, app, secrets, transport):
                (answer,) = send(transport, [push])
                yield _answered(f"{each.provider} for app {app.name}", answer)
        transport.close()


def _push(
    of_provider: ProviderApps, app: AppSettings, secrets: "SecretsManagerClient", transport: Transport
) -> Push | None:
    """None for what goes to browsers or to the webhook: there is nobody to ask."""
    match of_provider.provider:
        case Provider.APNS:
            sandbox = of_provider.settings.get("apns_sandbox_url", apns.URLS[Environment.SANDBOX])
            urls = {**apns.URLS, Environment.SANDBOX: sandbox}
            apple = apns_apps([app], secrets, urls).find(app.name, Environment.SANDBOX)
            return ApnsPush(apple, NOBODY, b'{"aps":{}}', PushType.BACKGROUND, str(uuid4())) if apple else None
        case Provider.FCM:
            url = of_provider.settings.get("fcm_url", fcm.PRODUCTION)
            google = fcm_apps([app], secrets, transport, url).find(app.name, None)
            return FcmPush(app=google, token=NOBODY, message=NOTHING, ttl=0).without_payload() if google else None
    return None


def _answered(name: str, answer: Answered) -> Check:
    match answer:
        case Misconfigured(reason=reason) if reason in PRODUCTION_ALONE:
            return Check(name=name, found="the key is good for production alone, which only a real push tries")
        case Misconfigured(reason=reason) | Refused(reason=reason):
            return Check(name=name, found=reason, todo=CORRECT)
        case RetryLater(reason=reason):
            return Check(name=name, found=reason, todo=AGAIN)
    return Check(name=name, found="takes our credential")
