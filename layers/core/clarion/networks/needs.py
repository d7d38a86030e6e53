"""What a network needs of the account, as plain data that `infra` turns into resources and grants.

A network may have two functions of its own: a router, which answers its routes, and a worker, which handles the messages
of its queue of commands (`clarion.messages.CommandMessage`). Each runs under a role of its own, which may do what is
stated here with `by` naming it, read the network's secrets, and nothing else. `clarion.networks.settings` says what they
find in their environment.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from clarion.settings import NodeBudget


class Auth(StrEnum):
    """Who may call a route: a client with its token, a server known to the network, or anybody.

    Clients are checked by Clarion's authorizer, before the router runs; servers by the router.
    """

    CLIENT = "client"
    SERVER = "server"
    PUBLIC = "public"


class Function(StrEnum):
    """A network's own functions."""

    ROUTER = "router"
    WORKER = "worker"


BOTH = tuple(Function)
HOURLY = b"hourly"
"""What a command holds that comes every hour: see `Needs`."""


class Route(NamedTuple):
    """A route of the network's own, which its router answers. `path` is as API Gateway has it, such as `/seats/{id}`."""

    method: str
    path: str
    auth: Auth


class Index(NamedTuple):
    """Another way to a table's keys. Rows without one of its attributes are not in it."""

    name: str
    hash_key: tuple[str, str]
    range_key: tuple[str, str] | None = None


class Table(NamedTuple):
    """A table of the network's own; attributes as DynamoDB types, such as `S`. Rows expire by the attribute `ttl`."""

    name: str
    hash_key: tuple[str, str]
    range_key: tuple[str, str] | None = None
    ttl: str | None = None
    indexes: tuple[Index, ...] = ()


class Grant(NamedTuple):
    """What functions may do with a table, as DynamoDB's actions (`GetItem`).

    `table` is one of the network's own, or one of `clarion.tables`; `tokens/index/by_x` is an index of it.
    """

    table: str
    actions: tuple[str, ...]
    by: tuple[Function, ...] = BOTH


class Target(StrEnum):
    """Where a network's functions may send: the push queues, those of commands and cleanup, the lake's events."""

    PUSHES = "pushes"
    COMMANDS = "commands"
    CLEANUP = "cleanup"
    EVENTS = "events"


class Send(NamedTuple):
    """Lets functions send to `target`."""

    target: Target
    by: tuple[Function, ...] = BOTH


class AlarmNeed(NamedTuple):
    """Raised if `metric` counts at least `threshold` in five minutes.

    `service` is the component that counts it, such as `ingest`; if there is none, the network's own functions do.
    """

    metric: str
    threshold: int
    meaning: str
    service: str | None = None


class Nodes(NamedTuple):
    """The nodes of a network, which ingest follows and a deployment names.

    `option` is the context's that lists their addresses. Each matches the regular expression `address`, as `examples` do.
    `budget` is that of one node, where the network's source keeps to one.
    """

    option: str
    address: str
    examples: tuple[str, ...]
    budget: NodeBudget | None = None

    def check(self, addresses: Iterable[str]) -> None:
        """Raise `ValueError` for one of another shape."""
        if not all(re.fullmatch(self.address, address) for address in addresses):
            raise ValueError(f"{self.option}: a node's address is such as {self.examples[0]}")


class Needs(NamedTuple):
    """`tables` and `secrets` have their names below the deployment's prefix. An operator fills in the secrets.

    `router` and `worker` are dotted paths to the handlers, below `functions/`: the first part is the package that is
    deployed. With a `worker` the network has a queue of commands; with `commanded`, its sources and outcomes give it some.
    With `hourly`, the command `HOURLY` comes to it every hour: now and then twice, or not at all. `request_headers` are
    those of the network's own that web pages may send with a request, beside the API's. `nodes` are its nodes, if it
    has any. `body_table` is the table of its own, with one row for each subscription under `subscription_id`, that
    dispatch reads for pushes without a body.
    """

    tables: tuple[Table, ...] = ()
    secrets: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    request_headers: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    sends: tuple[Send, ...] = ()
    alarms: tuple[AlarmNeed, ...] = ()
    router: str | None = None
    worker: str | None = None
    nodes: Nodes | None = None
    body_table: str | None = None
    commanded: bool = True
    hourly: bool = False

    @property
    def commands(self) -> bool:
        """Whether there is a queue of them."""
        return self.worker is not None

    @property
    def takes_commands(self) -> bool:
        """Whether ingest and dispatch send any to that queue."""
        return self.commands and self.commanded
