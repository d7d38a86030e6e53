"""Whatever the API refuses, as one exception; docs/errors.md says what to do about each kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import httpx

from clarion_client.models import FieldError

type ProblemKind = Literal[
    "malformed", "bad-request", "unauthenticated", "login-failed", "direct-push-off", "wrong-code", "login-off",
    "no-subscription", "no-route", "wrong-method", "rules-changed", "token-taken", "subscription-invalid",
    "code-expired", "already-active", "too-many-subscriptions", "too-many-rules", "too-large",
    "unsupported-media-type", "invalid", "too-many-requests", "contended", "unavailable",
]  # fmt: skip

_MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:clarion:problem:"
_FOR_NOW = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)


@dataclass(eq=False)
class Problem(Exception):  # noqa: N818 - RFC 9457's own word
    """`kind` is None if it wasn't the API that answered, but what stands before it; then only `status` counts.

    `retry_after` is in seconds, `subscription_id` what a token is registered as already (`token-taken`).
    """

    status: int
    kind: ProblemKind | None = None
    title: str | None = None
    detail: str | None = None
    errors: Sequence[FieldError] = ()
    retry_after: int | None = None
    subscription_id: str | None = None

    @classmethod
    def of(cls, answer: httpx.Response) -> Self:
        said = _document(answer)
        return cls(
            answer.status_code,
            kind=said["type"].removeprefix(_TYPE_PREFIX) if "type" in said else None,
            title=said.get("title"),
            detail=said.get("detail"),
            errors=said.get("errors", ()),
            retry_after=retry_after(answer),
            subscription_id=said.get("subscription_id"),
        )

    def __str__(self) -> str:
        rules = (f"{error['field']} {error['rule']}" for error in self.errors)
        said = (self.kind, self.title, self.detail, *rules)
        return f"HTTP status {self.status}: {'; '.join(text for text in said if text)}".removesuffix(": ")


def retry_after(answer: httpx.Response) -> int | None:
    """Seconds after which the same request may succeed, of an answer that says so."""
    seconds = answer.headers.get("Retry-After", "")
    return int(seconds) if answer.status_code in _FOR_NOW and seconds.isdecimal() else None


def _document(answer: httpx.Response) -> dict[str, Any]:
    if answer.headers.get("Content-Type") != _MEDIA_TYPE:
        return {}
    document: dict[str, Any] = answer.json()
    return document
