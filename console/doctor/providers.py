"""Whether the providers take the credentials that the operator filled in. They are asked, and nobody is pushed to."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3

from clarion.channels import Provider
from clarion.decisions import Environment
from clarion.networks import FcmMessage
from clarion.providers import apns, fcm
from clarion.providers.apns import ApnsPush, PushType
from clarion.providers.apps import AppSettings, apns_apps, fcm_apps
from clarion.providers.fcm import FcmPush
from clarion.providers.outcomes import Answered, Misconfigured, Refused, RetryLater
from clarion.providers.sender import Push, send
from clarion.providers.transport import Transport
from clarion.settings import EMULATED_STAGE
from console.deployment import Deployment
from console.doctor import apps
from console.doctor.report import Check

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

CORRECT = "correct the secret, or the app: docs/operations.md#provider-misconfigured"
AGAIN = "ask again later, and look whether this machine reaches the provider"
NOBODY = "00" * 32
"""A token that no device has."""
NOTHING = FcmMessage(data={}, android={"priority": "high"})
PRODUCTION_ALONE = {"BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"}
"""Apple's answers to a key that it knows, but not as one of the sandbox."""


def check_credentials(here: Deployment) -> Iterator[Check]:
    """With each app's credential, as the sandbox's APNs and FCM answer it."""
    secrets = boto3.client("secretsmanager")
    for each in apps.deployed(here):
        stand_ins = _stand_ins(here.stage, each.settings)
        transport = Transport(stand_ins.get("ca_file"))
        for app in each.apps:
            if push := _push(each.provider, app, secrets, transport, stand_ins):
                (answer,) = send(transport, [push])
                yield _check_answer(f"{each.provider} for app {app.name}", answer)
        transport.close()


def _stand_ins(stage: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    """The emulator's stage alone has any: elsewhere, whoever writes the settings would be sent our credentials."""
    return settings if stage == EMULATED_STAGE else {}


def _push(
    provider: Provider,
    app: AppSettings,
    secrets: "SecretsManagerClient",
    transport: Transport,
    stand_ins: Mapping[str, str],
) -> Push | None:
    """None for what goes to browsers or to the webhook: there is nobody to ask."""
    match provider:
        case Provider.APNS:
            sandbox = stand_ins.get("apns_sandbox_url", apns.URLS[Environment.SANDBOX])
            urls = {**apns.URLS, Environment.SANDBOX: sandbox}
            apple = apns_apps([app], secrets, urls).find(app.name, Environment.SANDBOX)
            return ApnsPush(apple, NOBODY, b'{"aps":{}}', PushType.BACKGROUND, str(uuid4())) if apple else None
        case Provider.FCM:
            url = stand_ins.get("fcm_url", fcm.PRODUCTION)
            google = fcm_apps([app], secrets, transport, url).find(app.name, None)
            return FcmPush(app=google, token=NOBODY, message=NOTHING, ttl=0).without_payload() if google else None
    return None


def _check_answer(name: str, answer: Answered) -> Check:
    match answer:
        case Misconfigured(reason=reason) if reason in PRODUCTION_ALONE:
            return Check(name=name, found="the key is good for production alone, which only a real push tries")
        case Misconfigured(reason=reason) | Refused(reason=reason):
            return Check(name=name, found=reason, todo=CORRECT)
        case RetryLater(reason=reason):
            return Check(name=name, found=reason, todo=AGAIN)
    return Check(name=name, found="takes our credential")
