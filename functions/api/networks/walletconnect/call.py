"""A request being answered: whose it is, what came with it, and what it is answered with."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil
from typing import Self

from pydantic import TypeAdapter

from api.networks.walletconnect.arguments import of_body
from api.networks.walletconnect.errors import DappError, domain_taken, unprocessable
from api.networks.walletconnect.worker import DappApiWorker
from api.requests import Event
from clarion.networks.walletconnect import buckets
from clarion.networks.walletconnect.buckets import BucketSize
from clarion.networks.walletconnect.projects import Project, app_of


@dataclass(frozen=True, slots=True)
class DappAnswer:
    status: HTTPStatus = HTTPStatus.NO_CONTENT
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, content: object, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> Self:
        """JSON. Names of headers with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status, json.dumps(content), {"Content-Type": "application/json", **named})


@dataclass(frozen=True, slots=True)
class DappCall:
    """From anybody. `parameters` are those of its path."""

    worker: DappApiWorker
    event: Event
    parameters: Mapping[str, str]

    @property
    def now(self) -> int:
        """UNIX milliseconds."""
        return self.worker.now()

    def body[Body](self, kind: TypeAdapter[Body]) -> Body:
        return of_body(self.event, kind, self.worker.settings.body_bytes)

    def query(self, name: str) -> str | None:
        value: str | None = (self.event.get("queryStringParameters") or {}).get(name)
        return value

    def take_token(self, size: BucketSize, whose: str) -> None:
        """Raises `DappError` if the bucket is empty."""
        if not buckets.take(size, whose, self.now):
            wait = ceil((size.interval - self.now % size.interval) / 1000)
            raise DappError(HTTPStatus.TOO_MANY_REQUESTS, "rate limit exceeded", {"Retry-After": str(wait)})


@dataclass(frozen=True, slots=True)
class ProjectCall(DappCall):
    """From who has a project's secret."""

    project: Project

    @property
    def app(self) -> str:
        """Raises `DappError` if the project has claimed no domain yet."""
        if self.project.app is None:
            raise unprocessable("the project has no domain yet: claim it by subscribe-topic")
        return str(self.project.app)

    @property
    def own_app(self) -> str:
        """The same, unless it has been moved away: the project may have been read a minute ago."""
        if app_of(self.project.project_id, self.app) is None:
            raise domain_taken()
        return self.app

    def take_project_token(self, size: BucketSize) -> None:
        self.take_token(size, self.project.project_id)
