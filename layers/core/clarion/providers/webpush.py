"""Web Push: requests as browsers' push services ask for them, and what each of their answers means.

https://www.rfc-editor.org/rfc/rfc8030#section-5
"""

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from hashlib import sha256
from http.client import responses
from typing import TYPE_CHECKING, ClassVar, override

import pycurl

from clarion import base64url
from clarion.providers.apps import Apps, AppSettings
from clarion.providers.credentials import Clock, Credential
from clarion.providers.order import Order
from clarion.providers.outcomes import (
    CredentialRejected,
    Delivered,
    FirstAnswer,
    Misconfigured,
    Refused,
    RetryLater,
    TokenGone,
    TokenOrApp,
)
from clarion.providers.transport import Answer, Request, Result
from clarion.providers.vapid import VapidCredential, VapidKey
from clarion.providers.webpush_address import PUSH_SERVICES, ServiceName, WebPushAddress, is_own, service_of
from clarion.providers.webpush_encryption import encrypt
from clarion.secrets import Secret
from clarion.settings import TITLE

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

MAX_TTL = 28 * 24 * 3600
"""Seconds: what push services keep a push for at most."""

GONE = {404, 410}
"""For good, as an endpoint that has ended is never given to another subscription:
https://www.rfc-editor.org/rfc/rfc8030#section-7.3, https://www.w3.org/TR/push-api/#push-subscription
"""
REJECTED = (403, "BadJwtToken")
"""Apple's answer to a VAPID token that is at fault; it has another for a subscription made with another key."""
RETRY = {406, 408, 425, 429}
"""406 is how Windows throttles:
https://learn.microsoft.com/windows/apps/design/shell/tiles-and-notifications/push-request-response-headers
"""
OURS = {413}
"""Every other refusal may be the endpoint's fault, which a client has chosen, or that of a subscription made with another
key than ours, which Mozilla answers with 401, Google with 403 and Apple with 400.
https://mozilla-services.github.io/autopush-rs/errors.html
"""
NOT_REACHED = {pycurl.E_COULDNT_RESOLVE_HOST, pycurl.E_COULDNT_CONNECT}
_REASON = re.compile(r"[A-Za-z]{1,40}")


class Urgency(StrEnum):
    """Whether a device that saves energy is to get the push: https://www.rfc-editor.org/rfc/rfc8030#section-5.3"""

    NORMAL = "normal"
    HIGH = "high"


@dataclass(frozen=True, slots=True, eq=False)
class WebPushApp:
    """An app at one push service. What one service thinks of our key says nothing of the others.

    `presumed_gone`: a subscription was made with another key only if others are accepted with ours.
    `public`: whether the service is sent to at a public IP address only. `any_host`: its endpoints name hosts of their
    own, below the service's name.
    """

    presumed_gone: ClassVar = 0

    credential: VapidCredential
    _: KW_ONLY
    name: str
    title: str = TITLE
    public: bool = True
    any_host: bool = False

    def push(self, order: Order[bytes]) -> "WebPushPush":
        """Raises `ValueError` for a token that is no address, for which `WebPushApps.find` has no app."""
        return WebPushPush(
            app=self,
            address=WebPushAddress.parse(order.token),
            content=order.body,
            # With a TTL of 0, Windows asks for a header of its own.
            ttl=max(1, min(int(order.useful_until - order.now), MAX_TTL)),
            urgency=Urgency.NORMAL if order.background else Urgency.HIGH,
            collapse_id=order.collapse_id,
        )


class WebPushApps(Apps[WebPushApp]):
    """Apps by name and push service, each with a secret that holds a `VapidKey`; `services` are sent to, no others."""

    def __init__(
        self,
        settings: Sequence[AppSettings],
        secrets: "SecretsManagerClient",
        services: Collection[ServiceName] = PUSH_SERVICES,
        clock: Clock = time.time,
    ) -> None:
        keys = {one.name: Secret(secrets, one.secret_id, VapidKey, clock) for one in settings}

        def make(one: AppSettings, service: ServiceName) -> WebPushApp:
            return WebPushApp(
                VapidCredential(keys[one.name], clock),
                name=f"{one.name} {service}",
                title=one.alert_title,
                public=not is_own(service),
                any_host=service.startswith("*."),
            )

        made = {(one.name, service): make(one, service) for one in settings for service in services}
        super().__init__(settings[0].name, made)
        self._services = frozenset(services)

    @override
    def find(self, name: str | None, environment: str | None, token: str = "") -> WebPushApp | None:
        """None also if the token is no address of a push service that is sent to."""
        try:
            service = service_of(WebPushAddress.parse(token), self._services)
        except ValueError:
            return None
        return super().find(name, service) if service else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPushPush:
    """`ttl` is in seconds, `MAX_TTL` at most. A push replaces an undelivered one with the same `collapse_id`."""

    app: WebPushApp
    address: WebPushAddress
    content: bytes = field(repr=False)
    ttl: int
    urgency: Urgency = Urgency.HIGH
    collapse_id: str | None = None

    @property
    def credential(self) -> Credential:
        return self.app.credential

    def request(self, bearer: str) -> Request:
        """Each request is encrypted anew."""
        headers = [
            f"authorization: vapid t={self.app.credential.token(self.address.origin)}, k={bearer}",
            "content-encoding: aes128gcm",
            "content-type: application/octet-stream",
            f"ttl: {self.ttl}",
            f"urgency: {self.urgency}",
        ]
        if self.collapse_id is not None:
            headers.append(f"topic: {topic(self.collapse_id)}")
        body = encrypt(self.content, p256dh=self.address.p256dh, auth=self.address.auth)
        return Request(self.address.endpoint, headers, body, self.app.name, public=self.app.public)

    def without_payload(self) -> None:
        """No answer of a push service leaves it open whether address or payload is at fault."""
        return

    def outcome(self, result: Result) -> FirstAnswer:
        """`Location` is not read: whoever knows it may delete the push, so it could be shown nowhere."""
        if not isinstance(result, Answer):
            if self.app.any_host and result.code in NOT_REACHED:
                # The client has made the host up, or its service is down: few attempts have to do.
                return Misconfigured(status=None, reason=result.reason, whole_app=False)
            return RetryLater(status=None, reason=result.reason)
        if 200 <= result.status < 300:
            return Delivered(status=result.status)
        return refusal(result)


def topic(collapse_id: str) -> str:
    """32 characters of base64url, as many as are allowed: https://www.rfc-editor.org/rfc/rfc8030#section-5.4"""
    return base64url.encode(sha256(collapse_id.encode()).digest()[:24])


def refusal(answer: Answer) -> FirstAnswer:
    """What an answer other than 2xx means; one that is not documented never ends a subscription."""
    status, reason = answer.status, _reason(answer)
    if status in GONE:
        return TokenGone(status=status, reason=reason)
    if (status, reason) == REJECTED:
        return CredentialRejected(status=status, reason=reason)
    if status in RETRY or status >= 500:
        return RetryLater(status=status, reason=reason, after=answer.retry_after)
    if status in OURS:
        return Refused(status=status, reason=reason)
    return TokenOrApp(status=status, reason=reason)


def _reason(answer: Answer) -> str:
    """Apple's reason, Mozilla's number of the error, or else what the status is called."""
    match answer.json():
        case {"reason": str(reason)} if _REASON.fullmatch(reason):
            return reason
        case {"errno": int(number)} if number is not True and 0 < number < 1000:
            return f"errno {number}"
    return responses.get(answer.status, "unknown status")
