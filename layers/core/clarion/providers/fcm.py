"""Firebase Cloud Messaging, HTTP v1.

https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send
https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
"""

import json
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, Self

from clarion.payload import FcmMessage
from clarion.providers.credentials import Credential, GoogleCredential
from clarion.providers.outcomes import (
    CredentialRejected,
    Delivered,
    FirstOutcome,
    Misconfigured,
    Refused,
    RetryLater,
    TokenGone,
)
from clarion.providers.transport import Answer, Fault, Request, Result

PRODUCTION = "https://fcm.googleapis.com"
MAX_TTL = 28 * 24 * 3600
"""Seconds; https://firebase.google.com/docs/cloud-messaging/customize-messages/setting-message-lifespan"""
QUOTA_PAUSE = 60.0
FAILURE_PAUSE = 10.0
"""Seconds to wait at least: https://firebase.google.com/docs/cloud-messaging/scale-fcm"""

RETRY = {"QUOTA_EXCEEDED", "UNAVAILABLE", "INTERNAL"}
MAYBE_THE_TOKENS_FAULT = {"SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR"}
"""Also the answers to a token of someone else's project, or of an iPhone: one such token must not stop the rest."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, eq=False)
class FcmApp:
    """One Firebase project: the one whose service account we hold."""

    credential: GoogleCredential
    _: KW_ONLY
    name: str
    url: str = PRODUCTION

    @property
    def send_url(self) -> str:
        return f"{self.url}/v1/projects/{self.credential.project_id}/messages:send"


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmPush:
    """`ttl` is in seconds.

    There is no collapse key: FCM keeps only four of them for a device that is offline, and drops what has others.
    https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types
    """

    app: FcmApp
    token: str = field(repr=False)
    message: FcmMessage = field(repr=False)
    ttl: int

    @property
    def credential(self) -> Credential:
        return self.app.credential

    def request(self, bearer: str) -> Request:
        android = {**self.message["android"], "ttl": f"{self.ttl}s"}
        body = {"message": {"token": self.token, "data": self.message["data"], "android": android}}
        headers = [f"authorization: Bearer {bearer}", "content-type: application/json"]
        return Request(self.app.send_url, headers, _json(body).encode(), self.app.name)

    def outcome(self, result: Result) -> FirstOutcome:
        if isinstance(result, Fault):
            return RetryLater(status=None, reason=result.reason)
        if result.status == 200:
            return Delivered(status=200, provider_id=_name(result.body))
        return refusal(result)


def refusal(answer: Answer) -> FirstOutcome:
    """What an answer other than 200 means; one that Google doesn't document never kills a token."""
    status = answer.status
    error = _FcmError.read(answer.body)
    if error.code in RETRY or status == 429 or status >= 500:
        return RetryLater(status=status, reason=error.code, after=_pause(error.code, answer))
    if error.code == "UNREGISTERED" or (error.code == "INVALID_ARGUMENT" and "message.token" in error.fields):
        return TokenGone(status=status, reason=error.code)
    if error.code in MAYBE_THE_TOKENS_FAULT:
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
    def read(cls, body: bytes) -> Self:
        try:
            error = json.loads(body)["error"]
            details = error.get("details", [])
            code = next((detail["errorCode"] for detail in details if "errorCode" in detail), error["status"])
            violations = (violation for detail in details for violation in detail.get("fieldViolations", []))
            return cls(str(code), frozenset(violation.get("field", "") for violation in violations))
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls("unreadable answer", frozenset())


def _pause(code: str, answer: Answer) -> float:
    if answer.retry_after is not None:
        return answer.retry_after
    return QUOTA_PAUSE if code == "QUOTA_EXCEEDED" else FAILURE_PAUSE


def _name(body: bytes) -> str | None:
    try:
        return str(json.loads(body)["name"])
    except (ValueError, KeyError, TypeError):
        return None
