"""`clarion walletconnect project …`: who may notify, and for which domain."""

import secrets

import click
from pydantic import BaseModel
from pynamodb.connection import Connection
from rich.table import Table

from clarion import tables
from clarion.clock import now_ms
from clarion.networks.walletconnect import domains
from clarion.networks.walletconnect.did import MalformedDid, domain_did, domain_of
from clarion.networks.walletconnect.domains import public_keys
from clarion.networks.walletconnect.projects import (
    DappApp,
    Project,
    ProjectState,
    find_app,
    find_project,
    secret_hash,
)
from clarion.networks.walletconnect.tables import MODELS
from clarion.tables import save_if
from console.deployment import Deployment
from console.faults import Trouble
from console.output import UNKNOWN, Report, confirm, table

COLUMNS = ("project", "name", "state", "domain", "types")


class ProjectLine(BaseModel):
    """`types` are the ids of its notification types, each with its name."""

    project_id: str
    name: str
    state: ProjectState
    app: str | None
    types: dict[str, str]

    @classmethod
    def of(cls, row: Project) -> "ProjectLine":
        names = {type_id: str(each["name"]) for type_id, each in row.types.items()}
        return cls(project_id=row.project_id, name=row.name, state=ProjectState(row.state), app=row.app, types=names)

    @property
    def cells(self) -> list[str]:
        types = "\n".join(f"{type_id} {name}" for type_id, name in self.types.items())
        return [self.project_id, self.name, self.state, self.app or UNKNOWN, types or UNKNOWN]


class Projects(Report):
    projects: tuple[ProjectLine, ...]

    def __rich__(self) -> Table:
        made = table(None, *COLUMNS)
        for line in self.projects:
            made.add_row(*line.cells)
        return made


class ProjectChange(Report):
    """`secret` is shown this once; None if it stays as it was."""

    wrapped = False

    stage: str
    project: ProjectLine
    secret: str | None = None

    def __rich__(self) -> str:
        line = self.project
        lines = [f"Project {line.project_id} ({line.name}) is {line.state} at {self.stage}."]
        if self.secret:
            lines.append(f"Its secret, which is not shown again: {self.secret}")
        return "\n".join(lines)


class DomainChange(Report):
    """The public keys, in hex, which the domain's `did.json` publishes."""

    wrapped = False

    stage: str
    project_id: str
    domain: str
    subscribe_key: str
    authentication_key: str

    def __rich__(self) -> str:
        return (
            f"Project {self.project_id} has {self.domain} at {self.stage}.\n"
            f"subscribe key {self.subscribe_key}\nauthentication key {self.authentication_key}"
        )


def bind(here: Deployment) -> Connection:
    """The models. Raises `Trouble` if the deployment doesn't serve WalletConnect."""
    connection = tables.bind(here.prefix, seconds=None, own=MODELS)
    if not Project.exists():
        raise Trouble(f"{here} does not serve WalletConnect: name it in the environment's `networks`, and deploy")
    return connection


def add(here: Deployment, name: str, project_id: str | None, known_hash: bytes | None) -> ProjectChange:
    """With the secret whose SHA-256 is given, or else with a new one."""
    secret = None if known_hash else secrets.token_urlsafe()
    row = Project(
        project_id or secrets.token_hex(16),
        name=name,
        secret_hash=known_hash or secret_hash(str(secret)),
        created_at=now_ms(),
    )
    if not save_if(row, condition=Project.project_id.does_not_exist()):
        raise click.UsageError(f"there is a project {row.project_id} already")
    return _change(here, row, secret)


def rotate_secret(here: Deployment, project_id: str, *, yes: bool) -> ProjectChange:
    """The old one is refused within a minute."""
    row = found_project(project_id)
    confirm(f"Give {row.name} ({project_id}) of {here} a new secret? The old one is refused from then on.", yes=yes)
    secret = secrets.token_urlsafe()
    row.update([Project.secret_hash.set(secret_hash(secret))])
    return _change(here, row, secret)


def set_state(here: Deployment, project_id: str, state: ProjectState, *, yes: bool) -> ProjectChange:
    row = found_project(project_id)
    if state is ProjectState.DEACTIVATED:
        confirm(f"Refuse {row.name} ({project_id}) at {here} from now on?", yes=yes)
    row.update([Project.state.set(state.value)])
    return _change(here, row)


def set_domain(here: Deployment, connection: Connection, project_id: str, domain: str, *, yes: bool) -> DomainChange:
    """Give a project a domain. One that another project has moves with its subscribers, once it is confirmed."""
    row = found_project(project_id)
    _require_domain(domain)
    known = find_app(domain)
    if known is not None and known.project_id != project_id:
        _move(here, connection, known, row, yes=yes)
    app = domains.claim(connection, row, domain, now_ms())
    if app is None or app.project_id != project_id:
        raise Trouble(f"another project has claimed {domain} meanwhile: try again")
    keys = public_keys(app)
    return DomainChange(
        stage=here.stage,
        project_id=project_id,
        domain=domain,
        subscribe_key=keys.subscribe.hex(),
        authentication_key=keys.authentication.hex(),
    )


def list_projects() -> Projects:
    """All of them, by name."""
    lines = map(ProjectLine.of, Project.scan())
    return Projects(projects=tuple(sorted(lines, key=lambda line: (line.name, line.project_id))))


def found_project(project_id: str) -> Project:
    """Raises `UsageError` if there is none."""
    row = find_project(project_id)
    if row is None:
        raise click.UsageError(f"no project {project_id}: `clarion walletconnect project add` makes one")
    return row


def _require_domain(text: str) -> None:
    try:
        domain_of(domain_did(text))
    except MalformedDid:
        raise click.UsageError(f"{text} is no domain in lower case") from None


def _move(here: Deployment, connection: Connection, app: DappApp, project: Project, *, yes: bool) -> None:
    owner = find_project(app.project_id)
    confirm(f"Move {app.app} of {here}, with its subscribers, from project {app.project_id}?", yes=yes)
    if not domains.move(connection, app, owner, project):
        raise Trouble(f"{app.app} was moved by somebody else meanwhile: try again")


def _change(here: Deployment, row: Project, secret: str | None = None) -> ProjectChange:
    return ProjectChange(stage=here.stage, project=ProjectLine.of(row), secret=secret)
