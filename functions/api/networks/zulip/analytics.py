"""`server/analytics`: a server's hourly report, which is also how its realms become known.

A realm is that server's which is the first to report it, up to as many as a server may claim. What of a report can be
taken is taken, whatever the rest of it is. Of its statistics nothing is kept but how far they have come, so that it
doesn't report them again.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import islice
from operator import and_
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, Json
from pynamodb.expressions.update import Action
from pynamodb.transactions import TransactWrite

from api.bodies import at_most
from api.networks.zulip.arguments import Arguments
from api.networks.zulip.call import ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.notifying import CAN_PUSH
from api.problems import contended
from clarion.networks.zulip.servers import Realm, RealmState, Server, find_server
from clarion.tables import transact, update_if

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

    @property
    def actions(self) -> list[Action]:
        """That write what a server says of it."""
        return [Realm.host.set(self.host), Realm.state.set(self.state.value)]


Rows = Json[Annotated[tuple[ReportedRow, ...], at_most(MOST_ROWS)]]


class ReportArguments(Arguments):
    """Each field of the form is JSON of its own."""

    realm_counts: Rows = ()
    installation_counts: Rows = ()
    realmauditlog_rows: Rows = ()
    realms: Json[Annotated[tuple[ReportedRealm, ...], at_most(MOST_REALMS)]] = ()


def status(call: ServerCall) -> Mapping[str, Any]:
    server = _as_it_is_now(call)
    return {
        "last_realm_count_id": int(server.last_realm_count_id),
        "last_installation_count_id": int(server.last_installation_count_id),
        "last_realmauditlog_id": int(server.last_realmauditlog_id),
    }


def report(call: ServerCall) -> Mapping[str, Any]:
    """Raises `ZulipError`, with all else written, if some of its realms are another server's."""
    asked = call.body(ReportArguments)
    reported = {str(realm.uuid): realm for realm in asked.realms}
    known = {row.realm_uuid: row for row in Realm.batch_get(list(reported))}
    own = {name: row for name, row in known.items() if row.server_uuid == call.server.server_uuid}
    server = _as_it_is_now(call)
    states = {name: _changed(server, row, reported[name]) for name, row in own.items()}
    states |= _claimed(call, server, {name: realm for name, realm in reported.items() if name not in known})
    _note_progress(server, asked)
    if duplicates := sorted(known.keys() - own.keys()):
        raise _duplicate(duplicates)
    return {"realms": {name: _push_status(states.get(name)) for name in reported}}


def _as_it_is_now(call: ServerCall) -> Server:
    return find_server(call.server_uuid) or call.server


def _push_status(state: RealmState | None) -> Mapping[str, Any]:
    """Of a realm; None for one beyond the server's limit."""
    return {**CAN_PUSH, "can_push": state is RealmState.ACTIVE}


def _note_progress(server: Server, asked: ReportArguments) -> None:
    """Unless another report has come further meanwhile: what this one brought then comes once more."""
    reported = (
        (Server.last_realm_count_id, server.last_realm_count_id, asked.realm_counts),
        (Server.last_installation_count_id, server.last_installation_count_id, asked.installation_counts),
        (Server.last_realmauditlog_id, server.last_realmauditlog_id, asked.realmauditlog_rows),
    )
    newest = ((column, before, max((row.id for row in rows), default=0)) for column, before, rows in reported)
    further = [(column, last) for column, before, last in newest if last > before]
    if further:
        conditions = (column.does_not_exist() | (column < last) for column, last in further)
        update_if(server, *(column.set(last) for column, last in further), condition=reduce(and_, conditions))


def _changed(server: Server, row: Realm, realm: ReportedRealm) -> RealmState:
    """Write what has changed of a realm, but for what the operator refuses; its state from now on.

    Raises `Problem` if another server, or the operator, has written meanwhile.
    """
    if row.state == RealmState.REFUSED:
        return RealmState.REFUSED
    if (row.host, row.state) != (realm.host, realm.state):
        unchanged = (Realm.server_uuid == server.server_uuid) & (Realm.state != RealmState.REFUSED.value)
        if not update_if(row, *realm.actions, condition=unchanged):
            raise contended()
    return realm.state


def _claimed(call: ServerCall, server: Server, free: Mapping[str, ReportedRealm]) -> Mapping[str, RealmState]:
    """Make as many of the realms that nobody has the server's as its limit allows; their states.

    Raises `Problem` if another server, or another report of this one, has written meanwhile.
    """
    most = int(server.max_realms or call.worker.settings.realms_per_server)
    within = dict(islice(free.items(), max(0, most - int(server.realms_claimed))))
    for name, realm in within.items():
        if not _claim(call, server, most, name, realm):
            raise contended()
    return {name: realm.state for name, realm in within.items()}


def _claim(call: ServerCall, server: Server, most: int, realm_uuid: str, realm: ReportedRealm) -> bool:
    """Exactly counted: the realm and the count are written together, or neither is."""
    actions = [Realm.server_uuid.set(server.server_uuid), Realm.created_at.set(call.now), *realm.actions]
    room = Server.realms_claimed.does_not_exist() | (Server.realms_claimed < most)

    def write(transaction: TransactWrite) -> None:
        transaction.update(Realm(realm_uuid), actions=actions, condition=Realm.realm_uuid.does_not_exist())
        transaction.update(server, actions=[Server.realms_claimed.add(1)], condition=room)

    return transact(call.worker.connection, write)


def _duplicate(realm_uuids: Sequence[str]) -> ZulipError:
    """In Zulip's words, and which they are."""
    text = f"Duplicate registration detected: {realm_uuids[0]} is another server's"
    return ZulipError(ZulipCode.BAD_REQUEST, text, {"realm_uuids": realm_uuids})
