"""`server/register` and `server/deactivate`: what an administrator has `manage.py register_server` do.

Who may not register learns nothing of who is known: each refusal is the same, but for one whose key is right. Its flag
`--registration-transfer` is not offered. It gives a server's registration to whoever serves a challenge at the server's
host name, which a server may say of itself as it likes; here the key decides, and `clarion zulip server add` replaces it.
"""

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field
from pynamodb.expressions.update import Action

from api import quotas
from api.networks.zulip.arguments import Arguments
from api.networks.zulip.authentication import credentials, require_active, unauthorized
from api.networks.zulip.call import PublicCall, ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.settings import ServerPolicy
from api.problems import contended
from api.quotas import Rate
from clarion.networks.zulip.servers import (
    FORMER_KEY_MS,
    KEY_LENGTH,
    Server,
    ServerState,
    find_server,
    has_key,
    key_hash,
)
from clarion.tables import update_if

OF_ADDRESS, OF_ALL = Rate(10, 3_600), Rate(60, 60)
"""New servers where anybody's is welcome: from one network address, and from all together."""
_REFUSED = "This service does not know your server, or not by this key: ask who runs it"

OrgKey = Annotated[str, Field(min_length=KEY_LENGTH, max_length=KEY_LENGTH)]


class ServerArguments(Arguments):
    """With `new_org_key`, that is the key of a server that is known, from now on."""

    zulip_org_id: UUID
    zulip_org_key: OrgKey = Field(repr=False)
    hostname: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?$", max_length=128)]
    contact_email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=254)]
    new_org_key: OrgKey | None = Field(default=None, repr=False)


def register_server(call: PublicCall) -> Mapping[str, Any]:
    """Of a server that is known already, hostname, address and key are what it says now.

    It may say so by its former key: then the answer that replaced that one was lost, and it is the server's key again.
    """
    asked = call.body(ServerArguments)
    server = find_server(asked.zulip_org_id)
    if server is None and call.worker.settings.server_policy is ServerPolicy.OPEN:
        _create(call, asked)
    elif server is not None and has_key(server, asked.zulip_org_key, call.now):
        _change(server, asked, call.now)
    else:
        raise unauthorized(_REFUSED)
    return {"created": server is None}


def refuse_transfer(_: PublicCall) -> Mapping[str, Any]:
    raise ZulipError(ZulipCode.REGISTRATION_TRANSFER_UNSUPPORTED)


def deactivate_server(call: ServerCall) -> Mapping[str, Any]:
    """Nothing of it is served from now on, but for what instances of this function remember.

    Raises `ZulipError` for a key that has been replaced.
    """
    _, key = credentials(call.event["headers"])
    deactivated = Server.state.set(ServerState.DEACTIVATED.value)
    if not update_if(call.server, deactivated, condition=Server.key_hash == key_hash(key)):
        raise unauthorized()
    return {}


def _create(call: PublicCall, asked: ServerArguments) -> None:
    """By the key that it has: a new server doesn't keep its `new_org_key`.

    Raises `Problem` if there are too many, or another registration, or the operator, has written meanwhile.
    """
    _within_allowance(call)
    actions = (
        Server.key_hash.set(key_hash(asked.zulip_org_key)),
        Server.hostname.set(asked.hostname),
        Server.contact_email.set(asked.contact_email),
        Server.state.set(ServerState.ACTIVE.value),
        Server.created_at.set(call.now),
    )
    if not update_if(Server(str(asked.zulip_org_id)), *actions, condition=Server.server_uuid.does_not_exist()):
        raise contended()


def _within_allowance(call: PublicCall) -> None:
    """That of the address comes first: whoever has used it up takes nothing from the others."""
    name = "zulip_servers"
    detail = f"at most {OF_ADDRESS.limit} new servers an hour of one address"
    quotas.require(f"{name}:{call.address}", OF_ADDRESS, call.now, detail)
    quotas.require(name, OF_ALL, call.now, f"at most {OF_ALL.limit} new servers a minute")


def _change(server: Server, asked: ServerArguments, now: int) -> None:
    """Raises `ZulipError` if it is deactivated, `Problem` if its key or state has changed meanwhile."""
    require_active(server)
    actions = (
        *_new_key(asked, now),
        Server.hostname.set(asked.hostname),
        Server.contact_email.set(asked.contact_email),
    )
    unchanged = (Server.key_hash == server.key_hash) & (Server.state == server.state)
    if not update_if(server, *actions, condition=unchanged):
        raise contended()


def _new_key(asked: ServerArguments, now: int) -> list[Action]:
    given = key_hash(asked.zulip_org_key)
    if asked.new_org_key is None:
        return [Server.key_hash.set(given)]
    return [
        Server.key_hash.set(key_hash(asked.new_org_key)),
        Server.former_key_hash.set(given),
        Server.former_key_until.set(now + FORMER_KEY_MS),
    ]
