"""How a call is refused, in Zulip's words: `{"result": "error", "msg": …, "code": …}` and a status.

What a server makes of a refused registration depends on the code: after some it tries again, as after a 5xx and after no
answer; all others are final, and go to the device's app. After any error of `notify` Zulip 12 gives a message up.
https://github.com/zulip/zulip, `zerver/lib/remote_server.py`, `push_registration.py` and `push_notifications.py`
"""

from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any

from api.problems import Problem, ProblemKind


class ZulipCode(Enum):
    """The status that a code comes with, and what it says if nothing else is said."""

    BAD_REQUEST = (HTTPStatus.BAD_REQUEST, "Invalid request")
    INVALID_BOUNCER_PUBLIC_KEY = (HTTPStatus.BAD_REQUEST, "Invalid bouncer_public_key")
    LEGACY_PUSH_UNSUPPORTED = (
        HTTPStatus.BAD_REQUEST,
        "This service takes end-to-end encrypted push notifications only",
    )
    PUSH_NOTIFICATIONS_DISALLOWED = (HTTPStatus.BAD_REQUEST, "The organization is deactivated")
    """A registration is tried again."""
    REGISTRATION_TRANSFER_UNSUPPORTED = (
        HTTPStatus.BAD_REQUEST,
        "Registrations are not transferred by host name: ask who runs this service to replace your server's key",
    )
    REQUEST_EXPIRED = (HTTPStatus.BAD_REQUEST, "The registration is too old")
    REQUEST_VARIABLE_MISSING = (HTTPStatus.BAD_REQUEST, "Missing argument")
    INVALID_ZULIP_SERVER = (
        HTTPStatus.UNAUTHORIZED,
        "Zulip server auth failure: not registered, or another key -- did you run `manage.py register_server`?",
    )
    """A registration is tried again, and its administrator gets a mail."""
    REALM_DEACTIVATED = (HTTPStatus.UNAUTHORIZED, "The registration of your server has been deactivated")
    MISSING_REMOTE_REALM = (HTTPStatus.FORBIDDEN, "Organization not registered")
    """A registration is tried again."""
    REMOTE_REALM_SERVER_MISMATCH_ERROR = (
        HTTPStatus.FORBIDDEN,
        "Your organization is registered to a different Zulip server",
    )
    NOT_FOUND = (HTTPStatus.NOT_FOUND, "There is nothing at this address")
    REQUEST_TOO_LARGE = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too large")
    RATE_LIMIT_HIT = (HTTPStatus.TOO_MANY_REQUESTS, "API usage exceeded rate limit")
    SERVER_NOT_READY = (HTTPStatus.SERVICE_UNAVAILABLE, "A part of the service does not answer")
    """A registration is tried again."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        self.status = status
        self.text = text


@dataclass
class ZulipError(Exception):
    """A call that is refused; `more` are members beside those of every error. Nothing here is of what was sent."""

    code: ZulipCode
    text: str | None = None
    more: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {"result": "error", "msg": self.text or self.code.text, "code": self.code.name, **self.more}


def not_ready(text: str, wait: int) -> ZulipError:
    """Zulip says in the body, too, after how many seconds to come again."""
    return ZulipError(ZulipCode.SERVER_NOT_READY, text, {"retry-after": wait}, {"Retry-After": str(wait)})


_CODES = {
    ProblemKind.NO_ROUTE: ZulipCode.NOT_FOUND,
    ProblemKind.TOO_LARGE: ZulipCode.REQUEST_TOO_LARGE,
    ProblemKind.TOO_MANY_REQUESTS: ZulipCode.RATE_LIMIT_HIT,
    ProblemKind.CONTENDED: ZulipCode.SERVER_NOT_READY,
    ProblemKind.UNAVAILABLE: ZulipCode.SERVER_NOT_READY,
}
"""Of the problems that the common functions end in."""


def of_problem(problem: Problem) -> ZulipError:
    """Zulip says in the body, too, after how many seconds to come again."""
    wait = problem.headers.get("Retry-After")
    text = ": ".join(filter(None, [_CODES[problem.kind].text, problem.detail]))
    return ZulipError(_CODES[problem.kind], text, {"retry-after": int(wait)} if wait else {}, problem.headers)
