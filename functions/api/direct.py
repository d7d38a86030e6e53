"""Direct push: one client hands us another's token and an encrypted message, as the apps did before there were rules.

It knows nothing of subscriptions and leaves them alone: what a provider says of a token goes to the caller, who had
it already, and nowhere else.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self
from uuid import uuid4

from api.settings import DirectPushSettings
from api.shapes import Platform
from clarion.decisions import Environment, Wanted
from clarion.networks import FcmMessage
from clarion.providers.apns import ApnsApp, ApnsPush
from clarion.providers.credentials import ApnsCredential, ApnsKey, GoogleAccount, GoogleCredential
from clarion.providers.fcm import MAX_TTL, FcmApp, FcmPush
from clarion.providers.outcomes import Answered
from clarion.providers.sender import Push, send
from clarion.providers.transport import Transport
from clarion.secrets import Secret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

APPLE_TOKEN = re.compile(r"[0-9a-fA-F]{64}")
CALL_TTL_SECONDS = 60
ALERT_TTL_SECONDS = MAX_TTL
"""Four weeks at both providers: what FCM keeps at most, and less than APNs' thirty days."""
WRONG_ENVIRONMENT = "BadDeviceToken"
"""Apple's word for a token of its other environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    token: str
    push_id: str
    message: str
    voip: bool
    bundle_id: str | None


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt at a provider; Apple has two environments, Google one."""

    environment: Literal["production", "development"] | None
    outcome: Answered


def platform_of(token: str) -> Platform:
    return "ios" if APPLE_TOKEN.fullmatch(token) else "android"


class DirectPush:
    """`clock` is in UNIX seconds."""

    def __init__(
        self,
        apple: Mapping[Environment, ApnsApp],
        google: FcmApp,
        transport: Transport,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._apple = apple
        self._google = google
        self._transport = transport
        self._clock = clock

    @classmethod
    def open(cls, settings: DirectPushSettings, secrets: "SecretsManagerClient") -> Self:
        transport = Transport(settings.ca_file)
        account = GoogleCredential(Secret(secrets, settings.fcm_secret_id, GoogleAccount), transport)
        apple = {environment: _apple_app(settings, secrets, environment) for environment in Environment}
        return cls(apple, FcmApp(account, name="direct", url=settings.fcm_url), transport)

    def push(self, message: Message, platform: Platform) -> Sequence[Try]:
        """Every attempt, the one that decided last."""
        if platform == "android":
            return [Try(None, self._send(self._to_android(message)))]
        first = Try("production", self._send(self._to_ios(message, Environment.PRODUCTION)))
        if first.outcome.reason != WRONG_ENVIRONMENT:
            return [first]
        return [first, Try("development", self._send(self._to_ios(message, Environment.SANDBOX)))]

    def _send(self, push: Push) -> Answered:
        return send(self._transport, [push])[0]

    def _to_ios(self, message: Message, environment: Environment) -> ApnsPush:
        app = self._apple[environment]
        return ApnsPush(
            app=app,
            token=message.token,
            body=_apns_body(message, app.title),
            push_type=Wanted.CALL if message.voip else Wanted.ALERT,
            push_id=str(uuid4()),
            expiration=0 if message.voip else int(self._clock()) + ALERT_TTL_SECONDS,
            topic=message.bundle_id,
        )

    def _to_android(self, message: Message) -> FcmPush:
        data = {"pushType": "chat", "pushId": message.push_id, "message": message.message}
        return FcmPush(
            app=self._google,
            token=message.token,
            message=FcmMessage(data=data, android={"priority": "high"}),
            ttl=CALL_TTL_SECONDS if message.voip else ALERT_TTL_SECONDS,
        )


def _apple_app(settings: DirectPushSettings, secrets: "SecretsManagerClient", environment: Environment) -> ApnsApp:
    sandboxed = environment is Environment.SANDBOX
    secret_id = (settings.apns_sandbox_secret_id if sandboxed else None) or settings.apns_secret_id
    return ApnsApp(
        ApnsCredential(Secret(secrets, secret_id, ApnsKey)),
        name=f"direct {environment}",
        bundle_id=settings.bundle_id,
        title=settings.alert_title,
        url=settings.apns_sandbox_url if sandboxed else settings.apns_url,
    )


def _apns_body(message: Message, title: str) -> bytes:
    aps = {} if message.voip else {"alert": {"title": title}, "mutable-content": 1}
    body = {"aps": aps, "pushId": message.push_id, "message": message.message}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
