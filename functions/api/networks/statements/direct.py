"""Direct push: one client hands us another's token and an encrypted message, as the apps did before there were rules.

It knows nothing of subscriptions and leaves them alone: what a provider says of a token goes to the caller, who had
it already, and nowhere else.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from pydantic import AliasChoices, ConfigDict, Field, StrictBool, model_validator

from api.bodies import RequestBody, SparseAnswer
from api.settings import DirectPushSettings
from clarion import compact_json
from clarion.decisions import Environment
from clarion.networks import FcmMessage
from clarion.providers.apns import ApnsApp, ApnsPush, PushType
from clarion.providers.credentials import ApnsCredential, ApnsKey, GoogleAccount, GoogleCredential
from clarion.providers.fcm import MAX_TTL, FcmApp, FcmPush
from clarion.providers.outcomes import Answered
from clarion.providers.sender import Push, send
from clarion.providers.transport import Transport
from clarion.secrets import Secret

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

APPLE_TOKEN = re.compile(r"[0-9a-fA-F]{64}")
DIRECT_DEVICE = r"^[a-zA-Z0-9_\-+/=:]{64,326}$"
DIRECT_IPHONE = re.compile(r"[0-9a-fA-F]{64,200}")
CALL_TTL_SECONDS = 60
ALERT_TTL_SECONDS = MAX_TTL
"""Four weeks at both providers: what FCM keeps at most, and less than APNs' thirty days."""
WRONG_ENVIRONMENT = "BadDeviceToken"
"""What Apple answers to a token of its other environment."""


type Platform = Literal["ios", "android"]


class DirectMessage(RequestBody):
    """A direct push, in the words of the API that the apps know; what else they send with it is passed over, as there."""

    model_config = ConfigDict(title="Notification", extra="ignore")

    device_token: str = Field(
        validation_alias=AliasChoices("deviceToken", "device_token"), pattern=DIRECT_DEVICE, repr=False
    )
    push_id: str = Field(
        validation_alias=AliasChoices("pushId", "push_id"), pattern="^([0-9a-fA-F]{32}|[0-9a-fA-F]{64})$"
    )
    platform: Platform | None = Field(default=None, description="inferred from the token where absent")
    bundle_id: str | None = Field(
        default=None,
        validation_alias=AliasChoices("bundlerId", "bundler_id"),
        pattern="^[A-Za-z0-9.-]{1,256}$",
        description="instead of this deployment's app, for an iPhone",
    )
    message: str = Field(pattern="^(0[xX])?[0-9a-fA-F]*$", max_length=8192, description="encrypted by the sender")
    voip: StrictBool | None = Field(default=None, description="a call; a message where absent")

    @property
    def is_call(self) -> bool:
        return bool(self.voip)

    @model_validator(mode="after")
    def _token_of_its_platform(self) -> Self:
        if self.platform == "ios" and not DIRECT_IPHONE.fullmatch(self.device_token):
            raise ValueError("deviceToken of an iPhone is hex")
        return self


class DirectError(SparseAnswer):
    """`status` and `response` are the provider's."""

    device: str
    environment: Literal["development", "production"] | None = None
    status: int | str | None = None
    response: Any = None


class DirectResult(SparseAnswer):
    model_config = ConfigDict(title="NotificationResult")

    success: bool
    platform: Platform
    sent: int | None = None
    failed: int | None = None
    message_id: str | None = Field(default=None, serialization_alias="messageId")
    errors: list[DirectError] | None = None


@dataclass(frozen=True, slots=True)
class DirectAttempt:
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

    def push(self, message: DirectMessage, platform: Platform) -> Sequence[DirectAttempt]:
        """Every attempt, the one that decided last."""
        if platform == "android":
            return [DirectAttempt(None, self._send(self._to_android(message)))]
        first = DirectAttempt("production", self._send(self._to_ios(message, Environment.PRODUCTION)))
        if first.outcome.reason != WRONG_ENVIRONMENT:
            return [first]
        return [first, DirectAttempt("development", self._send(self._to_ios(message, Environment.SANDBOX)))]

    def _send(self, push: Push) -> Answered:
        return send(self._transport, [push])[0]

    def _to_ios(self, message: DirectMessage, environment: Environment) -> ApnsPush:
        app = self._apple[environment]
        return ApnsPush(
            app=app,
            token=message.device_token,
            body=_apns_body(message, app.title),
            push_type=PushType.VOIP if message.is_call else PushType.ALERT,
            push_id=str(uuid4()),
            expiration=0 if message.is_call else int(self._clock()) + ALERT_TTL_SECONDS,
            topic=message.bundle_id,
        )

    def _to_android(self, message: DirectMessage) -> FcmPush:
        data = {"pushType": "chat", "pushId": message.push_id, "message": message.message}
        return FcmPush(
            app=self._google,
            token=message.device_token,
            message=FcmMessage(data=data, android={"priority": "high"}),
            ttl=CALL_TTL_SECONDS if message.is_call else ALERT_TTL_SECONDS,
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


def _apns_body(message: DirectMessage, title: str) -> bytes:
    aps = {} if message.is_call else {"alert": {"title": title}, "mutable-content": 1}
    return compact_json.encode({"aps": aps, "pushId": message.push_id, "message": message.message})
