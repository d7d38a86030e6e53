"""Firebase Cloud Messaging, HTTP v1.

https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send
https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
"""

import json
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

from clarion.networks import FcmMessage
from clarion.providers.credentials import Credential, GoogleCredential
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
    TokenOrPayload,
)
from clarion.providers.transport import Answer, Fault, Request, Result
from clarion.settings import TITLE

PRODUCTION = "https://fcm.googleapis.com"
MAX_TTL = 28 * 24 * 3600
"""Seconds; https://firebase.google.com/docs/cloud-messaging/customize-messages/setting-message-lifespan"""
QUOTA_PAUSE = 60.0
FAILURE_PAUSE = 10.0
"""Seconds to wait at least: https://firebase.google.com/docs/cloud-messaging/scale-fcm"""

INVALID = "INVALID_ARGUMENT"
"""Also all that Google says of a malformed token, unless it names the fields at fault."""
RETRY = {"QUOTA_EXCEEDED", "UNAVAILABLE", "INTERNAL"}
FOREIGN = "SENDER_ID_MISMATCH"
"""The answer to a token of another project, and to every token if the service account is of the wrong one."""
OF_AN_IPHONE = "THIRD_PARTY_AUTH_ERROR"
"""The answer to an iPhone's or a browser's token in a project without the key for them: it must not stop the rest."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False)
class FcmApp:
    """One Firebase project: the one whose service account we hold.

    `presumed_gone`: a token is `FOREIGN` only beside others that are accepted.
    """

    presumed_gone: ClassVar = 0

    credential: GoogleCredential
    _: KW_ONLY
    name: str
    title: str = TITLE
    url: str = PRODUCTION

    def push(self, order: Order[FcmMessage]) -> "FcmPush":
        ttl = max(0, min(int(order.useful_until - order.now), MAX_TTL))
        kept = ttl > 0 and not order.transient
        return FcmPush(
            app=self, token=order.token, message=order.body, ttl=ttl, expires_at=int(order.now) + ttl if kept else 0
        )

    @property
    def send_url(self) -> str:
        return f"{self.url}/v1/projects/{self.credential.project_id}/messages:send"


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmPush:
    """`ttl` is in seconds; `expires_at` says until when APNs keeps it, in UNIX seconds, or 0 for now or never.

    With `validate_only` Google judges the push like any other, and delivers it to nobody.

    There is no collapse key: FCM keeps only four of them for a device that is offline, and drops what has others.
    https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types
    """

    app: FcmApp
    token: str = field(repr=False)
    message: FcmMessage = field(repr=False)
    ttl: int
    expires_at: int = 0
    validate_only: bool = False

    @property
    def credential(self) -> Credential:
        return self.app.credential

    def request(self, bearer: str) -> Request:
        message = {"token": self.token, **self.message, **self._lifetimes()}
        body: dict[str, object] = {
            "message": message,
            **({"validateOnly": True} if self.validate_only else {}),
        }
        headers = [f"authorization: Bearer {bearer}", "content-type: application/json"]
        return Request(self.app.send_url, headers, _json(body).encode(), self.app.name)

    def _lifetimes(self) -> dict[str, object]:
        """FCM reads it separately for each kind of receiver that the message has anything for."""
        found: dict[str, object] = {"android": {**self.message["android"], "ttl": f"{self.ttl}s"}}
        if apns := self.message.get("apns"):
            found["apns"] = {**apns, "headers": {**apns.get("headers", {}), "apns-expiration": str(self.expires_at)}}
        if webpush := self.message.get("webpush"):
            found["webpush"] = {**webpush, "headers": {"TTL": str(self.ttl)}}
        return found

    def outcome(self, result: Result) -> FirstAnswer:
        if isinstance(result, Fault):
            return RetryLater(status=None, reason=result.reason)
        if result.status == 200:
            return Delivered(status=200, provider_id=_name(result))
        return refusal(result)

    def without_payload(self) -> "FcmPush":
        """A push without our payload that reaches no phone: what Google refuses of it is the token."""
        bare = FcmMessage(data={"check": "token"}, android={"priority": "high"})
        return replace(self, message=bare, ttl=0, validate_only=True)


def refusal(answer: Answer) -> FirstAnswer:
    """What an answer other than 200 means; one that Google doesn't document never kills a token."""
    status = answer.status
    error = _FcmError.read(answer)
    if error.code in RETRY or status == 429 or status >= 500:
        return RetryLater(status=status, reason=error.code, after=_pause(error.code, answer))
    if error.code == "UNREGISTERED" or (error.code == INVALID and "message.token" in error.fields):
        return TokenGone(status=status, reason=error.code)
    if error.code == INVALID and not error.fields:
        return TokenOrPayload(status=status, reason=error.code)
    if error.code == FOREIGN:
        return TokenOrApp(status=status, reason=error.code)
    return _no_fault_of_the_token(status, error)


def _no_fault_of_the_token(status: int, error: "_FcmError") -> FirstAnswer:
    if error.code == OF_AN_IPHONE:
        return Misconfigured(status=status, reason=error.code, whole_app=False)
    if status == 401:
        return CredentialRejected(status=status, reason=error.code)
    if status in {403, 404}:
        return Misconfigured(status=status, reason=error.code)
    return Refused(status=status, reason=error.code)


class _FcmError(NamedTuple):
    """`fields` are those that Google finds at fault."""

    code: str
    fields: frozenset[str]

    @classmethod
    def read(cls, answer: Answer) -> Self:
        try:
            error = answer.json()["error"]
            details = error.get("details", [])
            code = next((detail["errorCode"] for detail in details if "errorCode" in detail), error["status"])
            violations = (violation for detail in details for violation in detail.get("fieldViolations", []))
            return cls(str(code), frozenset(violation.get("field", "") for violation in violations))
        except (KeyError, TypeError, AttributeError):
            return cls("unreadable answer", frozenset())


def _pause(code: str, answer: Answer) -> float:
    if answer.retry_after is not None:
        return answer.retry_after
    return QUOTA_PAUSE if code == "QUOTA_EXCEEDED" else FAILURE_PAUSE


def _name(answer: Answer) -> str | None:
    match answer.json():
        case {"name": str(name)}:
            return name
    return None
