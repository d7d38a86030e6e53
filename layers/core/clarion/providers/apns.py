"""Apple Push Notification service: requests as Apple asks for them, and what each of its answers means.

https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
"""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from clarion.decisions import Environment
from clarion.providers.credentials import Credential
from clarion.providers.order import Order
from clarion.providers.outcomes import (
    CredentialRejected,
    CredentialTooNew,
    Delivered,
    FirstAnswer,
    Misconfigured,
    Refused,
    RetryLater,
    TokenGone,
    TokenOrApp,
)
from clarion.providers.transport import Answer, Fault, Request, Result
from clarion.settings import TITLE

URLS = {
    Environment.PRODUCTION: "https://api.push.apple.com",
    Environment.SANDBOX: "https://api.sandbox.push.apple.com",
}

TOKEN_GONE = {(410, "Unregistered"), (410, "ExpiredToken")}
TOKEN_OR_APP = {(400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic")}
"""Nearly always the token's fault; but a wrong environment or bundle id of ours makes it the answer to every token."""
REJECTED = {
    (403, "ExpiredProviderToken"),
    (403, "InvalidProviderToken"),
    (403, "MissingProviderToken"),
    (403, "UnrelatedKeyIdInToken"),
    (403, "BadEnvironmentKeyIdInToken"),
    (403, "BadEnvironmentKeyInToken"),
}
MISCONFIGURED = {
    (400, "TopicDisallowed"),
    (403, "Forbidden"),
    (403, "BadCertificate"),
    (403, "BadCertificateEnvironment"),
}
TOO_NEW = {(429, "TooManyProviderTokenUpdates")}
REFUSED = {
    *((400, reason) for reason in ("BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic")),
    *((400, reason) for reason in ("DuplicateHeaders", "InvalidPushType", "MissingDeviceToken", "MissingTopic")),
    (400, "PayloadEmpty"),
    (404, "BadPath"),
    (405, "MethodNotAllowed"),
    (413, "PayloadTooLarge"),
}
RETRY = {
    (400, "IdleTimeout"),
    (429, "TooManyRequests"),
    (500, "InternalServerError"),
    (503, "ServiceUnavailable"),
    (503, "Shutdown"),
}

UNREADABLE = "unreadable answer"
KEPT_SECONDS = 30 * 24 * 3600
"""As long as APNs keeps a notification at most."""


class PushType(StrEnum):
    """Apple's words; https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns"""

    ALERT = "alert"
    BACKGROUND = "background"
    VOIP = "voip"


@dataclass(frozen=True, slots=True, eq=False)
class ApnsApp:
    """An app in one of Apple's two environments. Keys belong to an environment, so connections do as well.

    `presumed_gone`: so many tokens are taken for dead before the app itself is suspected of `TOKEN_OR_APP`.
    """

    presumed_gone: ClassVar = 20

    credential: Credential
    _: KW_ONLY
    name: str
    bundle_id: str
    title: str = TITLE
    url: str = URLS[Environment.PRODUCTION]

    def push(self, order: Order[bytes]) -> "ApnsPush":
        return ApnsPush(
            app=self,
            token=order.token,
            body=order.body,
            push_type=PushType.VOIP if order.call else PushType.BACKGROUND if order.background else PushType.ALERT,
            push_id=order.push_id,
            collapse_id=order.collapse_id,
            expiration=0
            if order.call or order.transient
            else min(int(order.useful_until), int(order.now) + KEPT_SECONDS),
            priority=order.priority,
        )


class ApnsPush(NamedTuple):
    """`push_id` is a UUID; `topic` overrides the app's bundle id; `expiration` is in UNIX seconds, 0: now or never.

    A tuple because a frozen dataclass takes longer to make, and one is made for each push. Its token is never shown.
    """

    app: ApnsApp
    token: str
    body: bytes
    push_type: PushType
    push_id: str
    collapse_id: str | None = None
    expiration: int = 0
    topic: str | None = None
    priority: int | None = None

    def __repr__(self) -> str:
        return f"ApnsPush({self.push_id})"

    @property
    def credential(self) -> Credential:
        return self.app.credential

    def request(self, bearer: str) -> Request:
        topic = self.topic or self.app.bundle_id
        headers = [
            f"authorization: bearer {bearer}",
            f"apns-topic: {topic}.voip" if self.push_type is PushType.VOIP else f"apns-topic: {topic}",
            f"apns-push-type: {self.push_type}",
            f"apns-priority: {self.priority or self._usual_priority}",
            f"apns-expiration: {self.expiration}",
            f"apns-id: {self.push_id}",
        ]
        if self.collapse_id is not None:
            headers.append(f"apns-collapse-id: {self.collapse_id}")
        return Request(f"{self.app.url}/3/device/{self.token}", headers, self.body, self.app.name)

    @property
    def _usual_priority(self) -> int:
        """Apple answers a background push of priority 10 with an error."""
        return 5 if self.push_type is PushType.BACKGROUND else 10

    def without_payload(self) -> None:
        """No answer of Apple's leaves it open whether token or payload is at fault."""
        return

    def outcome(self, result: Result) -> FirstAnswer:
        if isinstance(result, Fault):
            return RetryLater(status=None, reason=result.reason)
        if result.status == 200:
            return Delivered(status=200, provider_id=self.push_id)
        return refusal(result)


def refusal(answer: Answer) -> FirstAnswer:
    """What an answer other than 200 means; one that Apple doesn't document never kills a token."""
    reason, timestamp = _read(answer)
    if (answer.status, reason) in TOKEN_GONE:
        return TokenGone(status=answer.status, reason=reason, since=timestamp)
    if (answer.status, reason) in TOKEN_OR_APP:
        return TokenOrApp(status=answer.status, reason=reason)
    return _no_fault_of_the_token(answer, reason)


def _no_fault_of_the_token(answer: Answer, reason: str) -> FirstAnswer:
    status = answer.status
    answered = (status, reason)
    if answered in REJECTED:
        return CredentialRejected(status=status, reason=reason)
    if answered in TOO_NEW:
        return CredentialTooNew(status=status, reason=reason, after=answer.retry_after)
    if answered in MISCONFIGURED or status in {401, 403}:
        return Misconfigured(status=status, reason=reason)
    if answered in RETRY or status == 429 or status >= 500:
        return RetryLater(status=status, reason=reason, after=answer.retry_after)
    return Refused(status=status, reason=reason)


def _read(answer: Answer) -> tuple[str, int | None]:
    match answer.json():
        case {"reason": str(reason), "timestamp": int(timestamp)}:
            return reason, timestamp
        case {"reason": str(reason), **others} if "timestamp" not in others:
            return reason, None
    return UNREADABLE, None
