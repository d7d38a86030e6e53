"""`clarion walletconnect COMMAND …`: the words of the command line."""

import re
from typing import Any, override
from uuid import UUID

import click
from pynamodb.connection import Connection

from clarion.networks.walletconnect.projects import ProjectState
from console import deployment
from console.deployment import Deployment
from console.faults import Exit
from console.options import Hex, options, yes_option
from console.output import show
from console.walletconnect import notification_types, projects, server_keys


class ProjectId(click.ParamType[str]):
    name = "project"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch("[0-9a-f]{32}", str(value)):
            self.fail("is not 32 hex digits in lower case", param, ctx)
        return str(value)


_project = click.argument("project", type=ProjectId())


@click.group("walletconnect", short_help="The dapps that may notify, and our keys.")
def walletconnect() -> None:
    """The dapps that may notify, and the Notify server's own keys."""


@walletconnect.group("project")
def _projects() -> None:
    """Who may notify, for which domain, and of which types."""


@_projects.command("add")
@options(
    click.argument("name"),
    click.option(
        "--id", "project", type=ProjectId(), help="32 hex digits that it has already; by default random ones."
    ),
    click.option("--secret-hash", type=Hex(), help="SHA-256 of the secret that it has already; by default a new one."),
)
def _add(*, name: str, project: str | None, secret_hash: bytes | None, stage: str | None, as_json: bool) -> Exit:
    """Create a project called NAME. Its secret is shown, this once."""
    here, _ = _bound(stage)
    show(projects.add(here, name, project, secret_hash), as_json=as_json)
    return Exit.WELL


@_projects.command("rotate-secret")
@options(_project, yes_option)
def _rotate_secret(*, project: str, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Give PROJECT a new secret, which is shown this once, and refuse the old one."""
    here, _ = _bound(stage)
    show(projects.rotate_secret(here, project, yes=yes), as_json=as_json)
    return Exit.WELL


@_projects.command("domain")
@options(_project, click.argument("domain"), yes_option)
def _domain(*, project: str, domain: str, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Give PROJECT the DOMAIN, and show the keys that its did.json has to publish."""
    here, connection = _bound(stage)
    show(projects.set_domain(here, connection, project, domain, yes=yes), as_json=as_json)
    return Exit.WELL


@_projects.command("type")
@options(
    _project,
    click.option("--id", "type_id", type=click.UUID, help="Of a type to be changed; by default a new one."),
    click.option("--name", help="What wallets call it."),
    click.option("--description", help="What wallets say of it."),
    click.option("--image", help="The address of its image."),
)
def _type(
    *,
    project: str,
    type_id: UUID | None,
    name: str | None,
    description: str | None,
    image: str | None,
    stage: str | None,
    as_json: bool,
) -> Exit:
    """Add a type of notification to PROJECT, or change one."""
    here, _ = _bound(stage)
    texts = notification_types.TypeTexts(name, description, image)
    show(notification_types.set_type(here, project, type_id, texts), as_json=as_json)
    return Exit.WELL


@_projects.command("remove-type")
@options(_project, click.argument("type_id", metavar="TYPE", type=click.UUID), yes_option)
def _remove_type(*, project: str, type_id: UUID, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Remove TYPE from PROJECT. Subscribers that take it keep it in their scope."""
    here, _ = _bound(stage)
    show(notification_types.remove_type(here, project, type_id, yes=yes), as_json=as_json)
    return Exit.WELL


@_projects.command("deactivate")
@options(_project, yes_option)
def _deactivate(*, project: str, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Refuse PROJECT from now on. Its subscribers stay."""
    here, _ = _bound(stage)
    show(projects.set_state(here, project, ProjectState.DEACTIVATED, yes=yes), as_json=as_json)
    return Exit.WELL


@_projects.command("activate")
@options(_project)
def _activate(*, project: str, stage: str | None, as_json: bool) -> Exit:
    """Serve PROJECT again."""
    here, _ = _bound(stage)
    show(projects.set_state(here, project, ProjectState.ACTIVE, yes=True), as_json=as_json)
    return Exit.WELL


@_projects.command("list")
@options()
def _list(*, stage: str | None, as_json: bool) -> Exit:
    """All projects, with their domains and types."""
    _bound(stage)
    show(projects.list_projects(), as_json=as_json)
    return Exit.WELL


@walletconnect.command("create-keys")
@options(yes_option)
def _create_keys(*, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Make the Notify server's own keys, unless it has some."""
    here, _ = _bound(stage)
    show(server_keys.create(here, yes=yes), as_json=as_json)
    return Exit.WELL


@walletconnect.command("rotate-keys")
@options(yes_option)
def _rotate_keys(*, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Make new keys for the Notify server in place of its own. Wallets learn them from its did.json."""
    here, _ = _bound(stage)
    show(server_keys.rotate(here, yes=yes), as_json=as_json)
    return Exit.WELL


def _bound(stage: str | None) -> tuple[Deployment, Connection]:
    here = deployment.find(stage)
    return here, projects.bind(here)
