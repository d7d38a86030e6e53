"""Which server calls: HTTP Basic of its UUID and its `zulip_org_key`; and which realms are its own."""

from base64 import b64decode
from collections.abc import Mapping
from uuid import UUID

from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.worker import ZulipWorker
from clarion.networks.zulip.servers import Realm, RealmState, Server, ServerState, has_key

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="zulip"'}


def authenticated(headers: Mapping[str, str], worker: ZulipWorker) -> Server:
    """The server, which is active. Raises `ZulipError`."""
    server_uuid, key = credentials(headers)
    now = worker.now()

    def serves(server: Server) -> bool:
        return has_key(server, key, now) and server.state == ServerState.ACTIVE

    server = worker.servers.get(server_uuid, serves)
    if not has_key(server, key, now) or server is None:
        raise unauthorized()
    require_active(server)
    return server


def unauthorized(text: str | None = None) -> ZulipError:
    return ZulipError(ZulipCode.INVALID_ZULIP_SERVER, text, headers=_CHALLENGE)


def require_active(server: Server) -> None:
    """Raises `ZulipError`, for one whose key is right."""
    if server.state != ServerState.ACTIVE:
        raise ZulipError(ZulipCode.REALM_DEACTIVATED, headers=_CHALLENGE)


def realm_of(server: Server, realm_uuid: UUID, worker: ZulipWorker) -> Realm:
    """The realm, which is active and the server's. Raises `ZulipError`."""

    def serves(realm: Realm) -> bool:
        return bool(realm.server_uuid == server.server_uuid and realm.state == RealmState.ACTIVE)

    realm = worker.realms.get(realm_uuid, serves)
    if realm is None:
        raise ZulipError(ZulipCode.MISSING_REMOTE_REALM)
    if realm.server_uuid != server.server_uuid:
        raise ZulipError(ZulipCode.REMOTE_REALM_SERVER_MISMATCH_ERROR)
    if realm.state != RealmState.ACTIVE:
        raise ZulipError(ZulipCode.PUSH_NOTIFICATIONS_DISALLOWED)
    return realm


def credentials(headers: Mapping[str, str]) -> tuple[UUID, str]:
    """A server's UUID and key. Raises `ZulipError`."""
    scheme, _, encoded = headers.get("authorization", "").partition(" ")
    try:
        name, _, key = b64decode(encoded.strip(), validate=True).decode().partition(":")
        server_uuid = UUID(name)
    except ValueError:
        raise unauthorized() from None
    if scheme.lower() != "basic":
        raise unauthorized()
    return server_uuid, key
