"""`clarion zulip COMMAND …`: the words of the command line."""

from typing import Any, override
from uuid import UUID

import click

from console import deployment
from console.deployment import Deployment
from console.faults import Exit
from console.options import Hex, options, yes_option
from console.output import show
from console.zulip import bouncer_keys, servers


class Allowed(click.ParamType[int]):
    """A number, or `default`, which is `servers.DEFAULT`."""

    name = "number"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "default":
            return servers.DEFAULT
        return click.IntRange(min=1).convert(value, param, ctx)


_server = click.argument("server", type=click.UUID)
_realm = click.argument("realm", type=click.UUID)


@click.group("zulip", short_help="Zulip servers, realms, the bouncer's keys.")
def zulip() -> None:
    """The Zulip servers that are served, their realms, and the bouncer's keys."""


@zulip.group("server")
def _servers() -> None:
    """Who may register devices, and push to them."""


@zulip.group("realm")
def _realms() -> None:
    """Which server an organization is on. Servers report their realms themselves, too."""


@_servers.command("add")
@options(
    _server,
    click.option("--hostname", help="By which its operator knows it."),
    click.option("--contact", help="Its operator's email address."),
    click.option("--key-hash", type=Hex(), help="SHA-256 of its zulip_org_key; needed the first time."),
    click.option("--devices", type=Allowed(), help="At most so many; `default` for as many as any."),
    click.option("--pushes-a-minute", type=Allowed(), help="At most so many; `default` for as many as any."),
    click.option("--realms", type=Allowed(), help="It may claim so many; `default` for as many as any."),
)
def _add_server(
    *,
    server: UUID,
    hostname: str | None,
    contact: str | None,
    key_hash: bytes | None,
    devices: int | None,
    pushes_a_minute: int | None,
    realms: int | None,
    stage: str | None,
    as_json: bool,
) -> Exit:
    """Let SERVER in, named by its zulip_org_id, or change what it is allowed."""
    terms = servers.ServerTerms(hostname, contact, key_hash, devices, pushes_a_minute, realms)
    show(servers.add_server(_bound(stage), server, terms), as_json=as_json)
    return Exit.WELL


@_servers.command("remove")
@options(_server, yes_option)
def _remove_server(*, server: UUID, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Refuse SERVER from now on; `add` lets it in again."""
    show(servers.remove_server(_bound(stage), server, yes=yes), as_json=as_json)
    return Exit.WELL


@_servers.command("list")
@options()
def _list_servers(*, stage: str | None, as_json: bool) -> Exit:
    """All servers, with their realms and devices counted."""
    _bound(stage)
    show(servers.list_servers(), as_json=as_json)
    return Exit.WELL


@_realms.command("add")
@options(
    _realm,
    click.option("--server", type=click.UUID, required=True, help="The server that it is on."),
    click.option("--host", help="Its host name."),
    yes_option,
)
def _add_realm(*, realm: UUID, server: UUID, host: str | None, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Say that REALM is on a server, or has moved there."""
    show(servers.add_realm(_bound(stage), realm, server, host, yes=yes), as_json=as_json)
    return Exit.WELL


@_realms.command("list")
@options(click.option("--server", type=click.UUID, help="That server's alone."))
def _list_realms(*, server: UUID | None, stage: str | None, as_json: bool) -> Exit:
    """All realms, by their servers."""
    _bound(stage)
    show(servers.list_realms(server), as_json=as_json)
    return Exit.WELL


@_realms.command("remove")
@options(_realm, yes_option)
def _remove_realm(*, realm: UUID, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Refuse REALM from now on; `add` lets it in again."""
    show(servers.remove_realm(_bound(stage), realm, yes=yes), as_json=as_json)
    return Exit.WELL


@zulip.command("keys")
@options()
def _keys(*, stage: str | None, as_json: bool) -> Exit:
    """The bouncer's public keys, and how many devices each one registered."""
    show(bouncer_keys.list_keys(_bound(stage)), as_json=as_json)
    return Exit.WELL


@zulip.command("rotate-key")
@options(click.option("--first", is_flag=True, help="There is none yet."), yes_option)
def _rotate_key(*, first: bool, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Add a bouncer key, and show its public half for the app's next release. The others stay good."""
    show(bouncer_keys.rotate(_bound(stage), first=first, yes=yes), as_json=as_json)
    return Exit.WELL


@zulip.command("retire-key")
@options(click.argument("public"), yes_option)
def _retire_key(*, public: str, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Refuse registrations that are sealed to the key PUBLIC. Devices that are registered stay."""
    show(bouncer_keys.retire(_bound(stage), public, yes=yes), as_json=as_json)
    return Exit.WELL


def _bound(stage: str | None) -> Deployment:
    here = deployment.find(stage)
    servers.bind(here)
    return here
