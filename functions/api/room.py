"""What the routes work with: settings, tables, the event log and a clock, made once and handed in with each request."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import boto3
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pynamodb.connection import Connection

from api.settings import ApiSettings
from clarion.events import EventLog
from clarion.rulesets import RuleSets
from clarion.tables import bind


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Room:
    settings: ApiSettings
    connection: Connection
    rule_sets: RuleSets
    events: EventLog
    now: Callable[[], int] = field(default=milliseconds)

    @classmethod
    def open(cls, settings: ApiSettings) -> Self:
        bind(settings.table_prefix)
        connection = Connection()
        return cls(
            settings=settings,
            connection=connection,
            rule_sets=RuleSets(connection, limit=settings.rules_per_subscription),
            events=EventLog(boto3.client("firehose"), settings.events_stream),
        )


def of_request(router: APIGatewayHttpRouter) -> tuple[Room, bytes]:
    """The room, and the client that sent the request being answered."""
    return router.context["room"], router.context["client_id"]
