"""A bouncer of answers that are given beforehand, for the tests of the server and the client that stand before it."""

import json
from collections import deque
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import httpx

from local.zulip_bouncer import Bouncer

ORG_ID = UUID("6cde5f7a-1f7e-4978-9716-49f69ebfc9fe")
ORG_KEY = "k" * 64

type Answer = tuple[int, dict[str, Any]]


def success(**fields: Any) -> Answer:
    return 200, {"result": "success", "msg": "", **fields}


def error(code: str, status: int = 400) -> Answer:
    return status, {"result": "error", "msg": "no", "code": code}


class Answering:
    """Keeps each request; an exception among the answers is that of the way there. `otherwise` answers all the rest."""

    def __init__(self, *answers: Answer | Exception, otherwise: Answer | Exception | None = None) -> None:
        self.requests: list[httpx.Request] = []
        self._transport = httpx.MockTransport(self._answer)
        self._answers = deque(answers)
        self._otherwise = otherwise

    def bouncer(self) -> Bouncer:
        http = httpx.AsyncClient(base_url="https://bouncer.example", transport=self._transport)
        return Bouncer(http, ORG_ID, ORG_KEY)

    @property
    def routes(self) -> list[str]:
        return [request.url.path.removeprefix("/api/v1/remotes/") for request in self.requests]

    def fields(self, number: int = -1) -> dict[str, str]:
        """The form of a request."""
        return dict(parse_qsl(self.requests[number].content.decode(), keep_blank_values=True))

    def content(self, number: int = -1) -> Any:
        """The JSON of a request."""
        return json.loads(self.requests[number].content)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.popleft() if self._answers else self._otherwise
        if answer is None:
            raise AssertionError(f"{request.url.path} was not expected")
        if isinstance(answer, Exception):
            raise answer
        status, content = answer
        return httpx.Response(status, json=content)
