"""`server/analytics`: a server's hourly report, which is also how its realms become known.

Of its statistics nothing is kept but how far they have come, so that it doesn't report them again.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, Json

from api.bodies import at_most
from api.networks.zulip.arguments import Arguments
from api.networks.zulip.call import ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.notifying import CAN_PUSH
from api.problems import contended
from clarion.networks.zulip.servers import Realm, RealmState, Server
from clarion.tables import update_if

MOST_ROWS = 10_000
"""Of one kind in one report, as servers send them."""
MOST_REALMS = 1_000


class ReportedRow(Arguments):
    id: Annotated[int, Field(ge=0, lt=1 << 63)]


class ReportedRealm(Arguments):
    uuid: UUID
    host: Annotated[str, Field(max_length=255)]
    deactivated: bool = False

    @property
    def state(self) -> RealmState:
        return RealmState.DEACTIVATED if self.deactivated else RealmState.ACTIVE


Rows = Json[Annotated[tuple[ReportedRow, ...], at_most(MOST_ROWS)]]


class ReportArguments(Arguments):
    """Each field of the form is JSON of its own."""

    realm_counts: Rows = ()
    installation_counts: Rows = ()
    realmauditlog_rows: Rows = ()
    realms: Json[Annotated[tuple[ReportedRealm, ...], at_most(MOST_REALMS)]] = ()


def status(call: ServerCall) -> Mapping[str, Any]:
    server = call.server
    return {
        "last_realm_count_id": int(server.last_realm_count_id),
        "last_installation_count_id": int(server.last_installation_count_id),
        "last_realmauditlog_id": int(server.last_realmauditlog_id),
    }


def report(call: ServerCall) -> Mapping[str, Any]:
    asked = call.body(ReportArguments)
    states = _write_realms(call, asked.realms)
    _note_progress(call.server, asked)
    return {"realms": {name: {**CAN_PUSH, "can_push": state == RealmState.ACTIVE} for name, state in states.items()}}


def _note_progress(server: Server, asked: ReportArguments) -> None:
    reported = (
        (Server.last_realm_count_id, server.last_realm_count_id, asked.realm_counts),
        (Server.last_installation_count_id, server.last_installation_count_id, asked.installation_counts),
        (Server.last_realmauditlog_id, server.last_realmauditlog_id, asked.realmauditlog_rows),
    )
    newest = ((column, before, max((row.id for row in rows), default=0)) for column, before, rows in reported)
    further = [(column, last) for column, before, last in newest if last > before]
    if further:
        server.update([column.set(last) for column, last in further])


def _write_realms(call: ServerCall, realms: Sequence[ReportedRealm]) -> Mapping[str, RealmState]:
    """What is new or has changed, but for what the operator refuses; the states are those from now on.

    Raises `ZulipError`, with nothing written, if one is another server's.
    """
    server_uuid = call.server.server_uuid
    wanted = {str(realm.uuid): realm for realm in realms}
    known = {row.realm_uuid: row for row in Realm.batch_get(list(wanted))}
    if any(row.server_uuid != server_uuid for row in known.values()):
        raise _duplicate()
    refused_ones = {row.realm_uuid for row in known.values() if row.state == RealmState.REFUSED}
    for realm_uuid, realm in wanted.items():
        row = known.get(realm_uuid)
        if realm_uuid not in refused_ones and (row is None or (row.host, row.state) != (realm.host, realm.state)):
            _write_realm(realm_uuid, realm, server_uuid, call.now)
    return {name: RealmState.REFUSED if name in refused_ones else realm.state for name, realm in wanted.items()}


def _write_realm(realm_uuid: str, realm: ReportedRealm, server_uuid: str, now: int) -> None:
    """Raises `Problem` if another server, or the operator, has written meanwhile."""
    own = (Realm.server_uuid == server_uuid) & (Realm.state != RealmState.REFUSED.value)
    actions = (
        Realm.server_uuid.set(server_uuid),
        Realm.host.set(realm.host),
        Realm.state.set(realm.state.value),
        Realm.created_at.set(Realm.created_at | now),
    )
    if not update_if(Realm(realm_uuid), *actions, condition=Realm.server_uuid.does_not_exist() | own):
        raise contended()


def _duplicate() -> ZulipError:
    return ZulipError(ZulipCode.BAD_REQUEST, "Duplicate registration detected.")
