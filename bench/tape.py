"""AWS's answers, recorded once and played again: what is left to measure is the caller and the SDK, without transport."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSResponse

if TYPE_CHECKING:
    from botocore.client import BaseClient


class Tape:
    """Records what the attached clients are answered, until it is played; then the same requests get the same answers."""

    def __init__(self, *clients: "BaseClient") -> None:
        self._recorded: list[tuple[str, dict[str, Any]]] = []
        self._playing: Iterator[tuple[str, dict[str, Any]]] | None = None
        for client in clients:
            client.meta.events.register_first("before-send", self._answer)  # type: ignore[arg-type] # an answer counts
            client.meta.events.register_first("before-parse", self._record)

    def play(self) -> None:
        """From the beginning."""
        self._playing = iter(self._recorded)

    def _answer(self, event_name: str, **_: object) -> AWSResponse | None:
        if self._playing is None:
            return None
        operation, answer = next(self._playing)
        if not event_name.endswith(operation):
            raise SystemExit(f"{event_name}, where {operation} was recorded")
        return AWSResponse("", answer["status_code"], answer["headers"], RawBody(answer["body"]))

    def _record(self, event_name: str, response_dict: dict[str, Any], **_: object) -> None:
        if self._playing is None:
            self._recorded.append((event_name.removeprefix("before-parse"), dict(response_dict)))


class RawBody:
    """As urllib3 gives it."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content
