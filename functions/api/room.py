"""What the routes work with: settings, tables, the event log and a clock, made once and handed in with each request."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import boto3
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from botocore.config import Config
from pynamodb.connection import Connection

from api.direct import DirectPush
from api.identity import SharedSecret
from api.problems import Kind, Problem
from api.settings import ApiSettings
from clarion.cleanup import CleanupQueue
from clarion.events import EventLog
from clarion.rulesets import RuleSets
from clarion.secrets import Secret
from clarion.tables import bind

TABLE_SECONDS = 3
"""What one request to a table may take; it is tried twice."""
QUEUE_IN_TIME = Config(
    connect_timeout=TABLE_SECONDS, read_timeout=TABLE_SECONDS, retries={"mode": "standard", "total_max_attempts": 2}
)
"""The same for the queue."""
REQUEST_SECONDS = 20
"""After so long a request begins nothing new: what is under way then may take another 6 s, and API Gateway gives it 30."""


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Login:
    """The standalone login: the name that clients know the service by, and the key of its challenges and tokens."""

    domain: str
    _secret: Secret[SharedSecret] = field(repr=False)

    @property
    def secret(self) -> str:
        return self._secret.get().secret.get_secret_value()


@dataclass(frozen=True, slots=True)
class Room:
    settings: ApiSettings
    connection: Connection
    rule_sets: RuleSets
    cleanup: CleanupQueue
    events: EventLog
    login: Login | None
    direct_push: DirectPush | None
    origin: Secret[SharedSecret] | None = None
    now: Callable[[], int] = field(default=milliseconds)

    @classmethod
    def open(cls, settings: ApiSettings) -> Self:
        connection = bind(settings.table_prefix, seconds=TABLE_SECONDS)
        cleanup = CleanupQueue(boto3.client("sqs", config=QUEUE_IN_TIME), settings.cleanup_queue_url)
        return cls(
            settings=settings,
            connection=connection,
            rule_sets=RuleSets(connection, limit=settings.rules_per_subscription, request_cleanup=cleanup.send_claim),
            cleanup=cleanup,
            events=EventLog(boto3.client("firehose"), settings.events_stream),
            login=_login(settings),
            direct_push=_direct_push(settings),
            origin=_origin(settings),
        )


def _login(settings: ApiSettings) -> Login | None:
    if settings.login_secret_id is None or settings.login_domain is None:
        return None
    secret = Secret(boto3.client("secretsmanager"), settings.login_secret_id, SharedSecret)
    return Login(settings.login_domain, secret)


def _origin(settings: ApiSettings) -> Secret[SharedSecret] | None:
    if settings.origin_secret_id is None:
        return None
    return Secret(boto3.client("secretsmanager"), settings.origin_secret_id, SharedSecret)


def _direct_push(settings: ApiSettings) -> DirectPush | None:
    if settings.direct_push is None:
        return None
    return DirectPush.open(settings.direct_push, boto3.client("secretsmanager"))


def of_request(router: APIGatewayHttpRouter) -> tuple[Room, bytes, float]:
    """The room, the client that sent the request being answered, and until when anything new may be begun for it."""
    client_id = router.context["client_id"]
    if client_id is None:
        raise Problem(Kind.UNAUTHENTICATED)
    return router.context["room"], client_id, router.context["until"]
