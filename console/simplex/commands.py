"""`clarion simplex COMMAND …`: the words of the command line."""

import click

from clarion.networks.simplex.addresses import NTF_PORT
from console import deployment
from console.faults import Exit
from console.options import options, yes_option
from console.output import show
from console.simplex import identity


@click.group("simplex", short_help="The NTF server's identity and address.")
def simplex() -> None:
    """The NTF server's identity, and the address that apps are given."""


@simplex.command("address")
@options(
    click.argument("hosts", nargs=-1, required=True),
    click.option("--port", type=click.IntRange(1, 65_535), default=NTF_PORT, show_default=True),
)
def _address(*, hosts: tuple[str, ...], port: int, stage: str | None, as_json: bool) -> Exit:
    """The server's address in an app, at HOSTS: the public names of the deployment's option, in their order."""
    show(identity.address(deployment.find(stage), hosts, port), as_json=as_json)
    return Exit.WELL


@simplex.group("identity")
def _identity() -> None:
    """What apps know the server by."""


@_identity.command("create")
@options(yes_option)
def _create(*, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Make the server's identity, unless it has one."""
    show(identity.create(deployment.find(stage), yes=yes), as_json=as_json)
    return Exit.WELL


@_identity.command("rotate")
@options(yes_option)
def _rotate(*, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Give the server a new key for its sessions. The address stays; its tasks have to be started anew."""
    show(identity.rotate(deployment.find(stage), yes=yes), as_json=as_json)
    return Exit.WELL
