"""What a network needs of the account, as plain data that `infra` turns into resources and grants.

A network may have two functions of its own: a router, which answers its routes, and a worker, which handles the messages
of its queue of commands (`clarion.messages.CommandMessage`). Each runs under a role of its own, which may do what is
stated here with `by` naming it, read the network's secrets, and nothing else. `clarion.networks.settings` says what they
find in their environment.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import BaseModel

from clarion.settings import NodeBudget


class Auth(StrEnum):
    """Who may call a route: a client with its token, a server known to the network, or anybody.

    Clients are checked by Clarion's authorizer, before the router runs; servers by the router.
    """

    CLIENT = "client"
    SERVER = "server"
    PUBLIC = "public"


class Function(StrEnum):
    """A network's own functions, and a server of its own, which is a task: `infra` deploys each such by itself."""

    ROUTER = "router"
    WORKER = "worker"
    SERVER = "server"


class Commander(StrEnum):
    """Who orders something of a network's worker, beside its own functions: its source in ingest, outcomes in dispatch."""

    SOURCE = "source"
    OUTCOME = "outcome"


BOTH = (Function.ROUTER, Function.WORKER)
HOURLY = b"hourly"
"""What a command holds that comes every hour: see `Needs`."""


class Route(NamedTuple):
    """A route of the network's own, which its router answers. `path` is as API Gateway has it, such as `/seats/{id}`."""

    method: str
    path: str
    auth: Auth


class Index(NamedTuple):
    """Another way to a table's keys, and to the attributes `more`. Rows without one of its keys are not in it."""

    name: str
    hash_key: tuple[str, str]
    range_key: tuple[str, str] | None = None
    more: tuple[str, ...] = ()


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
    """Where a network's functions may send: the queues of envelopes, pushes, commands and cleanup, the lake's events."""

    ENVELOPES = "envelopes"
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
    `budget` is that of one node, where the network's source keeps to one. With `keeps_unread`, one node is enough, as it
    keeps what it has to show until that is acknowledged.
    """

    option: str
    address: str
    examples: tuple[str, ...]
    budget: NodeBudget | None = None
    keeps_unread: bool = False

    def check(self, addresses: Iterable[str]) -> None:
        """Raise `ValueError` for one of another shape."""
        if not all(re.fullmatch(self.address, address) for address in addresses):
            raise ValueError(f"{self.option}: a node's address is such as {self.examples[0]}")


class NetworkOptions(NamedTuple):
    """What a deployment has to say of a network, by the context's option that is called as the network is.

    `api_domain` is the member that names the API's own domain, if there is one: under it others reach the network's routes.
    `app` is the member that names one of the environment's apps, if there is one; APNs has to reach it.
    Those of its fields that are `local` may be set where everything is on one machine, and nowhere else.
    """

    model: type[BaseModel]
    example: Mapping[str, Any]
    api_domain: str | None = None
    app: str | None = None
    local: tuple[str, ...] = ()


class Needs(NamedTuple):
    """`tables` and `secrets` have their names below the deployment's prefix. An operator fills in the secrets.

    But those of them that are `made_secrets` are made with the deployment, as `clarion.secrets.SharedSecret` reads them.
    Dispatch hands the `payload_secret`, one of these, to `Network.payload`; ingest reads the `ingest_secrets`.
    Of the network's own functions, the server alone reads the `server_secrets`. A network
    that `finds_sources` has a source in ingest, but no nodes: it finds what to follow in its own tables.

    `router` and `worker` are dotted paths to the handlers, below `functions/`: the first part is the package that is
    deployed. With a `worker` the network has a queue of commands, which those that it is `commanded_by` send to, and its own
    functions with a delay of up to `command_delay_seconds`.
    `api_routes` are answered by the API's own function, which checks clients.
    With `hourly`, the command `HOURLY` comes to it every hour: now and then twice, or not at all. `request_headers` are
    those of the network's own that web pages may send with a request, beside the API's. `nodes` are its nodes, if it
    has any; `ingest_grants` is what ingest may do with the network's own tables besides. `options` are what its functions
    and ingest read of what a deployment says of it. `server_path` is a regular expression of the paths of servers that ask for all
    of their users from one network address; `refusal_members` are what they look for in each refusal: whoever stands before the
    API, and refuses in JSON, adds them to a problem's own. `body_table` is the table of its own, with one row for each
    subscription under `subscription_id`, that dispatch reads for pushes without a body. A network that `ends_idle`
    subscriptions keeps rows of its own beside them, and ends both by itself: nobody else removes one that is idle.
    """

    tables: tuple[Table, ...] = ()
    secrets: tuple[str, ...] = ()
    made_secrets: tuple[str, ...] = ()
    payload_secret: str | None = None
    ingest_secrets: tuple[str, ...] = ()
    server_secrets: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    api_routes: tuple[Route, ...] = ()
    request_headers: tuple[str, ...] = ()
    server_path: str | None = None
    refusal_members: tuple[tuple[str, str], ...] = ()
    grants: tuple[Grant, ...] = ()
    ingest_grants: tuple[Grant, ...] = ()
    sends: tuple[Send, ...] = ()
    alarms: tuple[AlarmNeed, ...] = ()
    router: str | None = None
    worker: str | None = None
    nodes: Nodes | None = None
    finds_sources: bool = False
    options: NetworkOptions | None = None
    body_table: str | None = None
    commanded_by: tuple[Commander, ...] = tuple(Commander)
    command_delay_seconds: int = 0
    hourly: bool = False
    ends_idle: bool = False

    @property
    def followed(self) -> bool:
        """Whether it has a source in ingest."""
        return self.nodes is not None or self.finds_sources

    @property
    def commands(self) -> bool:
        """Whether there is a queue of them."""
        return self.worker is not None

    def takes_commands_of(self, commander: Commander) -> bool:
        return self.commands and commander in self.commanded_by
