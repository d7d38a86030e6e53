"""Every refusal of the API, as RFC 9457 problem details; what a client does about each: docs/errors.md."""

import json
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:clarion:problem:"


class ProblemKind(Enum):
    """The problem's name (the end of its `type`), its status and its title."""

    MALFORMED = ("malformed", HTTPStatus.BAD_REQUEST, "The body is not a JSON object")
    BAD_REQUEST = ("bad-request", HTTPStatus.BAD_REQUEST, "The request breaks a rule")
    UNAUTHENTICATED = ("unauthenticated", HTTPStatus.UNAUTHORIZED, "A valid bearer token is required")
    LOGIN_FAILED = ("login-failed", HTTPStatus.UNAUTHORIZED, "The challenge does not prove who you are")
    DIRECT_PUSH_OFF = ("direct-push-off", HTTPStatus.FORBIDDEN, "This deployment takes no direct pushes")
    WRONG_CODE = ("wrong-code", HTTPStatus.FORBIDDEN, "This is not the code that was pushed last")
    LOGIN_OFF = ("login-off", HTTPStatus.NOT_FOUND, "This deployment's clients get their tokens elsewhere")
    NO_SUBSCRIPTION = ("no-subscription", HTTPStatus.NOT_FOUND, "You have no such subscription")
    NO_ROUTE = ("no-route", HTTPStatus.NOT_FOUND, "There is nothing at this address")
    WRONG_METHOD = ("wrong-method", HTTPStatus.METHOD_NOT_ALLOWED, "The address does not take this method")
    RULES_CHANGED = ("rules-changed", HTTPStatus.CONFLICT, "The rules changed between two pages")
    TOKEN_TAKEN = ("token-taken", HTTPStatus.CONFLICT, "The token is already registered")
    SUBSCRIPTION_INVALID = ("subscription-invalid", HTTPStatus.CONFLICT, "The subscription has ended")
    CODE_EXPIRED = ("code-expired", HTTPStatus.CONFLICT, "The code is not good any more")
    ALREADY_ACTIVE = ("already-active", HTTPStatus.CONFLICT, "The subscription needs no proof")
    TOO_MANY_SUBSCRIPTIONS = (
        "too-many-subscriptions",
        HTTPStatus.CONFLICT,
        "You have as many subscriptions as allowed",
    )
    TOO_MANY_RULES = ("too-many-rules", HTTPStatus.CONFLICT, "The subscription would have more rules than allowed")
    TOO_LARGE = ("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON")
    INVALID = ("invalid", HTTPStatus.UNPROCESSABLE_ENTITY, "The request breaks a rule")
    TOO_MANY_REQUESTS = ("too-many-requests", HTTPStatus.TOO_MANY_REQUESTS, "You have sent too many requests")
    CONTENDED = (
        "contended",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Other requests kept changing the same subscription or rules",
    )
    UNAVAILABLE = ("unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "A part of the service does not answer")

    def __init__(self, slug: str, status: HTTPStatus, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title


@dataclass
class Problem(Exception):  # noqa: N818 - RFC 9457's own word
    """`more` holds members beside the standard ones, such as `errors`: one `field` and the `rule` it breaks each."""

    kind: ProblemKind
    detail: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    def response(self) -> Response[str]:
        body = {
            "type": TYPE_PREFIX + self.kind.slug,
            "title": self.kind.title,
            "status": int(self.kind.status),
            "detail": self.detail,
            **self.more,
        }
        return Response(
            status_code=self.kind.status,
            content_type=MEDIA_TYPE,
            headers=dict(self.headers),
            body=json.dumps({name: value for name, value in body.items() if value is not None}),
        )


def contended() -> Problem:
    """What the same request may succeed at a second later."""
    return Problem(ProblemKind.CONTENDED, headers={"Retry-After": "1"})
