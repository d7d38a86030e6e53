"""Stands in every AWS client's way, numbers the calls, and lets one of them end badly.

The real code runs against the emulation; only the wire is ours, by botocore's own hooks. Import this before the first
client is made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Any, NamedTuple

import botocore.handlers
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ReadTimeoutError
from botocore.model import OperationModel
from moto.core.models import botocore_stubber


class Ending(StrEnum):
    """How a call may end badly."""

    STOPPED_BEFORE = "the process stops before the call"
    STOPPED_AFTER = "the process stops after its effect"
    THROTTLED = "throttled, after the SDK's retries"
    FAILED = "fails, after the SDK's retries"
    TIMED_OUT = "takes effect, but no answer comes"
    REPEATED = "takes effect, no answer comes, and the SDK repeats it"


class Stopped(BaseException):
    """The process is no more; nothing but the harness may catch this."""


class Point(NamedTuple):
    """The call of that number, counted from 0, ends in that way."""

    number: int
    ending: Ending


_ERRORS: dict[Ending | None, tuple[int, str]] = {
    Ending.THROTTLED: (400, "ThrottlingException"),
    Ending.FAILED: (500, "InternalServerError"),
}


_aside: ContextVar[bool] = ContextVar("aside", default=False)


@dataclass
class Wire:
    """`calls` names what was called while it was watched."""

    calls: list[str] = field(default_factory=list)
    _point: Point | None = None
    _watching: bool = False
    _stopped: bool = False
    _repeats: bool = False
    _numbering: Lock = field(default_factory=Lock)
    """Dispatch asks for the secrets of two apps at once."""

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is called meanwhile is no part of the scenario: it lays it out, or looks at what came of it.

        Nor is anything that a task calls which is made meanwhile: another process, which nothing befalls.
        """
        watching, self._watching = self._watching, False
        token = _aside.set(True)
        try:
            yield
        finally:
            _aside.reset(token)
            self._watching = watching

    def step(self, name: str) -> None:
        """A moment at which the process may stop although it calls nothing."""
        self._number(name)

    def revive(self) -> None:
        """Start the process again."""
        self._stopped = False

    @contextmanager
    def watched(self, point: Point | None = None) -> Iterator[list[str]]:
        self.calls, self._point = [], point
        self._watching, self._stopped = True, False
        try:
            yield self.calls
        finally:
            self._watching = False

    def before_call(self, model: OperationModel, context: dict[str, Any], **_: object) -> object:
        if not self._watching or _aside.get():
            return None
        ending = self._number(f"{model.service_model.service_name} {model.name}")
        context["ends"] = ending
        self._repeats = ending is Ending.REPEATED
        if ending not in _ERRORS:
            return None
        return _error(*_ERRORS[ending])

    def _number(self, name: str) -> Ending | None:
        if self._stopped:
            raise Stopped
        with self._numbering:
            number = len(self.calls)
            self.calls.append(name)
        if not self._point or number != self._point.number:
            return None
        if self._point.ending is Ending.STOPPED_BEFORE:
            self._stop()
        return self._point.ending

    def before_send(self, event_name: str, request: Any, **_: object) -> None:
        if self._repeats:
            self._repeats = False
            botocore_stubber(event_name, request)
            request.reset_stream()

    def after_call(self, context: dict[str, Any], **_: object) -> None:
        if context.get("ends") is Ending.STOPPED_AFTER:
            self._stop()
        if context.get("ends") is Ending.TIMED_OUT:
            raise ReadTimeoutError(endpoint_url="an emulated one")

    def _stop(self) -> None:
        self._stopped = True
        raise Stopped


def _error(status: int, code: str) -> tuple[AWSResponse, dict[str, Any]]:
    parsed = {"Error": {"Code": code, "Message": "as planned"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return AWSResponse("", status, HTTPHeaders(), None), parsed


wire = Wire()
botocore.handlers.BUILTIN_HANDLERS[:0] = [  # before the emulation's, whose answer is then that to the repetition
    ("before-call", wire.before_call),
    ("before-send", wire.before_send),
    ("after-call", wire.after_call),
]
