"""`clarion zulip server …` and `clarion zulip realm …`: who may register devices here and push to them."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

import click
from pydantic import BaseModel
from pynamodb.attributes import Attribute
from pynamodb.expressions.update import Action
from rich.console import RenderableType
from rich.table import Table

from clarion import tables
from clarion.clock import now_ms
from clarion.networks.zulip.servers import MODELS, Realm, RealmState, Server, ServerState, find_realm, find_server
from clarion.tables import Subscription, save_if
from console.deployment import Deployment
from console.faults import Trouble
from console.output import UNKNOWN, Report, confirm, progress, table

COLUMNS = (
    *("server", "state", "hostname", "contact", "realms", "realms at most"),
    *("devices", "devices at most", "pushes a minute"),
)
REALM_COLUMNS = ("server", "realm", "state", "host")

DEFAULT = 0
"""In place of a server's own quota: that of all servers."""


@dataclass(frozen=True)
class ServerTerms:
    """What an operator says of a server; None leaves it as it is. `key_hash` is the SHA-256 of its `zulip_org_key`.

    A quota may be `DEFAULT`.
    """

    hostname: str | None = None
    contact_email: str | None = None
    key_hash: bytes | None = None
    max_devices: int | None = None
    pushes_a_minute: int | None = None
    max_realms: int | None = None


class ServerLine(BaseModel):
    """`devices` counts what ended in the last 30 days as well; None if nobody has counted them."""

    server_uuid: UUID
    state: ServerState
    hostname: str | None
    contact_email: str | None
    max_devices: int | None
    pushes_a_minute: int | None
    max_realms: int | None
    realms: int | None = None
    devices: int | None = None

    @property
    def cells(self) -> list[str]:
        texts = (self.hostname, self.contact_email)
        numbers = (self.realms, self.max_realms, self.devices, self.max_devices, self.pushes_a_minute)
        known = (UNKNOWN if one is None else str(one) for one in (*texts, *numbers))
        return [str(self.server_uuid), self.state, *known]


class Servers(Report):
    servers: tuple[ServerLine, ...]

    def __rich__(self) -> Table:
        made = table(None, *COLUMNS, numbers=COLUMNS[4:])
        for line in self.servers:
            made.add_row(*line.cells)
        return made


class ServerChange(Report):
    stage: str
    server: ServerLine

    def __rich__(self) -> RenderableType:
        return f"{self.server.server_uuid} is {self.server.state} at {self.stage}."


class RealmLine(BaseModel):
    realm_uuid: UUID
    server_uuid: UUID
    state: RealmState
    host: str | None


class Realms(Report):
    realms: tuple[RealmLine, ...]

    def __rich__(self) -> Table:
        made = table(None, *REALM_COLUMNS)
        for line in self.realms:
            made.add_row(str(line.server_uuid), str(line.realm_uuid), line.state, line.host or UNKNOWN)
        return made


class RealmChange(Report):
    stage: str
    realm_uuid: UUID
    server_uuid: UUID
    state: RealmState

    def __rich__(self) -> RenderableType:
        return f"Realm {self.realm_uuid} of server {self.server_uuid} is {self.state} at {self.stage}."


def bind(here: Deployment) -> None:
    """The models. Raises `Trouble` if the deployment doesn't serve Zulip."""
    tables.bind(here.prefix, seconds=None, own=MODELS)
    if not Server.exists():
        raise Trouble(f"{here} does not serve Zulip: name it in the environment's `networks`, and deploy")


def add_server(here: Deployment, server_uuid: UUID, terms: ServerTerms) -> ServerChange:
    """Let a server in, again if it was removed, or change its terms. With a key here, no other is good any more."""
    if terms.key_hash is None and find_server(server_uuid) is None:
        raise click.UsageError("a new server needs --key-hash: without it, anybody could name a key for its id first")
    given = {name: value for name, value in asdict(terms).items() if value is not None}
    row = Server(str(server_uuid))
    row.update(
        [
            *(_changed(getattr(Server, name), value) for name, value in given.items()),
            *([Server.former_key_until.set(0)] if terms.key_hash else []),
            Server.state.set(ServerState.ACTIVE),
            Server.created_at.set(Server.created_at | now_ms()),
        ]
    )
    return ServerChange(stage=here.stage, server=_line(row))


def remove_server(here: Deployment, server_uuid: UUID, *, yes: bool) -> ServerChange:
    """Refuse a server from now on. Its devices and realms stay, for the case that it is let in again."""
    row = _server(server_uuid)
    confirm(f"Refuse {row.hostname or 'the server'} ({server_uuid}) at {here} from now on?", yes=yes)
    row.update([Server.state.set(ServerState.DEACTIVATED)])
    return ServerChange(stage=here.stage, server=_line(row))


def list_servers() -> Servers:
    """All of them, by hostname, with their realms and devices counted."""
    with progress("counting realms and devices"):
        realms = Counter(str(realm.server_uuid) for realm in Realm.scan())
        lines = [_counted(row, realms[row.server_uuid]) for row in Server.scan()]
    return Servers(servers=tuple(sorted(lines, key=lambda line: (line.hostname or "", line.server_uuid))))


def add_realm(here: Deployment, realm_uuid: UUID, server_uuid: UUID, host: str | None, *, yes: bool) -> RealmChange:
    """Say whose a realm is. One of another server moves, once it is confirmed, and leaves its devices behind."""
    _server(server_uuid)
    known = find_realm(realm_uuid)
    if known and known.server_uuid != str(server_uuid):
        confirm(f"Move realm {realm_uuid} of {here} from server {known.server_uuid}? Its devices stay there.", yes=yes)
    row = known or Realm(str(realm_uuid), created_at=now_ms())
    unchanged = Realm.server_uuid == known.server_uuid if known else Realm.realm_uuid.does_not_exist()
    row.server_uuid, row.host, row.state = str(server_uuid), host or row.host, RealmState.ACTIVE
    if not save_if(row, condition=unchanged):
        raise Trouble(f"realm {realm_uuid} was changed by somebody else meanwhile: try again")
    return _realm_change(here, row)


def remove_realm(here: Deployment, realm_uuid: UUID, *, yes: bool) -> RealmChange:
    """Refuse a realm from now on, whatever its server reports of it."""
    row = find_realm(realm_uuid)
    if row is None:
        raise click.UsageError(f"no realm {realm_uuid}")
    confirm(f"Refuse realm {realm_uuid} of server {row.server_uuid} at {here} from now on?", yes=yes)
    row.update([Realm.state.set(RealmState.REFUSED)])
    return _realm_change(here, row)


def list_realms(server_uuid: UUID | None) -> Realms:
    """All of them, or one server's, by server and host."""
    lines = (RealmLine.model_validate(row, from_attributes=True) for row in Realm.scan())
    listed = (line for line in lines if server_uuid in {None, line.server_uuid})
    return Realms(
        realms=tuple(sorted(listed, key=lambda line: (str(line.server_uuid), line.host or "", line.realm_uuid)))
    )


def _changed(column: Attribute[Any], value: object) -> Action:
    return column.remove() if value == DEFAULT else column.set(value)


def _server(server_uuid: UUID) -> Server:
    row = find_server(server_uuid)
    if row is None:
        raise click.UsageError(f"no server {server_uuid}: `clarion zulip server add` lets it in")
    return row


def _line(row: Server) -> ServerLine:
    return ServerLine.model_validate(row, from_attributes=True)


def _counted(row: Server, realms: int) -> ServerLine:
    devices = Subscription.by_client.count(row.client_id)
    return _line(row).model_copy(update={"realms": realms, "devices": devices})


def _realm_change(here: Deployment, row: Realm) -> RealmChange:
    return RealmChange(
        stage=here.stage,
        realm_uuid=UUID(row.realm_uuid),
        server_uuid=UUID(row.server_uuid),
        state=RealmState(row.state),
    )
