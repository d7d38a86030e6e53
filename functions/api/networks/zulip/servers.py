"""`server/register` and `server/deactivate`: what an administrator has `manage.py register_server` do."""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field
from pynamodb.expressions.condition import Condition

from api import quotas
from api.networks.zulip.arguments import Arguments
from api.networks.zulip.authentication import inactive, unauthorized
from api.networks.zulip.call import PublicCall, ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.settings import ServerPolicy
from api.problems import contended
from api.quotas import Rate
from clarion.networks.zulip.servers import KEY_LENGTH, Server, ServerState, find_server, has_key, key_hash
from clarion.tables import update_if

OF_ALL = Rate(60, 60)
"""Registrations of servers, whoever sends them: nobody needs to be known for one."""

OrgKey = Annotated[str, Field(min_length=KEY_LENGTH, max_length=KEY_LENGTH)]


class ServerArguments(Arguments):
    """With `new_org_key`, that is the server's from now on."""

    zulip_org_id: UUID
    zulip_org_key: OrgKey = Field(repr=False)
    hostname: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?$", max_length=128)]
    contact_email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]
    new_org_key: OrgKey | None = Field(default=None, repr=False)


def register_server(call: PublicCall) -> Mapping[str, Any]:
    """Of a server that is known already, hostname, address and key are what it says now."""
    asked = call.body(ServerArguments)
    quotas.require("zulip_servers", OF_ALL, call.now, f"at most {OF_ALL.limit} registrations of servers a minute")
    server = find_server(asked.zulip_org_id)
    _require_welcome(server, asked, call.worker.settings.server_policy)
    _write(server, asked, call.now)
    return {"created": server is None or server.state == ServerState.INVITED}


def deactivate_server(call: ServerCall) -> Mapping[str, Any]:
    """Nothing of it is served from now on, but for what instances of this function remember.

    Raises `ZulipError` for a key that this instance remembers, but that has been replaced.
    """
    deactivated = Server.state.set(ServerState.DEACTIVATED.value)
    if not update_if(call.server, deactivated, condition=Server.key_hash == call.server.key_hash):
        raise unauthorized()
    return {}


def _require_welcome(server: Server | None, asked: ServerArguments, policy: ServerPolicy) -> None:
    if server is None:
        if policy is not ServerPolicy.OPEN:
            raise ZulipError(ZulipCode.INVALID_ZULIP_SERVER, "Your server is not invited: ask who runs this service")
        return
    if server.key_hash is not None and not has_key(server, asked.zulip_org_key):
        raise unauthorized()
    if server.state == ServerState.DEACTIVATED:
        raise inactive(server)


def _write(server: Server | None, asked: ServerArguments, now: int) -> None:
    """Raises `Problem` if another registration, or the operator, has written meanwhile."""
    actions = (
        Server.key_hash.set(key_hash(asked.new_org_key or asked.zulip_org_key)),
        Server.hostname.set(asked.hostname),
        Server.contact_email.set(asked.contact_email),
        Server.state.set(ServerState.ACTIVE.value),
        Server.created_at.set(Server.created_at | now),
    )
    if not update_if(Server(str(asked.zulip_org_id)), *actions, condition=_unchanged(server)):
        raise contended()


def _unchanged(server: Server | None) -> Condition:
    if server is None:
        return Server.server_uuid.does_not_exist()
    same_key = Server.key_hash.does_not_exist() if server.key_hash is None else Server.key_hash == server.key_hash
    unchanged: Condition = same_key & (Server.state == server.state)
    return unchanged
