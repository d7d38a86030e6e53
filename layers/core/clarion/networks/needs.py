"""What a network needs of the account, as plain data that `infra` turns into resources and grants."""

from enum import StrEnum
from typing import NamedTuple


class Auth(StrEnum):
    """Who may call a route: a client with its token, a server known to the network, or anybody."""

    CLIENT = "client"
    SERVER = "server"
    PUBLIC = "public"


class Route(NamedTuple):
    """A route of the network's own, which its router serves. `public` ones are listed by a test."""

    method: str
    path: str
    auth: Auth


class Table(NamedTuple):
    """A table of the network's own; attributes as DynamoDB types, such as `S`."""

    name: str
    hash_key: tuple[str, str]
    range_key: tuple[str, str] | None = None


class Grant(NamedTuple):
    """What the network's function and router may do with one of its tables, as DynamoDB's actions."""

    table: str
    actions: tuple[str, ...]


class Alarm(NamedTuple):
    """Raised if `metric` counts at least `threshold` in five minutes."""

    metric: str
    threshold: int
    meaning: str


class Needs(NamedTuple):
    """`secrets` are names below the deployment's prefix. With `commands` the network has a function and a queue of its own."""

    tables: tuple[Table, ...] = ()
    secrets: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    grants: tuple[Grant, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    commands: bool = False
