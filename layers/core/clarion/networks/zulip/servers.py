"""Servers and their realms: who may register devices here and push to them.

    invited ──its own registration──▶ active ──▶ deactivated
       ▲                                ▲
    operator                 operator, or its own registration where anybody's is welcome

A server authenticates with its UUID and `zulip_org_key`, which it makes itself: 64 random characters, so that their plain
SHA-256 is safe to keep. A realm is an organization on a server, and of one server alone.
"""

from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from uuid import UUID

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from clarion.networks.zulip.needs import REALMS, SERVERS

KEY_LENGTH = 64
"""Characters of a `zulip_org_key`."""
_NO_KEY = bytes(32)


class ServerState(StrEnum):
    """One that is `invited` has still to register itself; a `deactivated` one is refused."""

    INVITED = "invited"
    ACTIVE = "active"
    DEACTIVATED = "deactivated"


class RealmState(StrEnum):
    """Its server says whether it is `deactivated`; one that the operator has `refused` stays so whatever that says."""

    ACTIVE = "active"
    DEACTIVATED = "deactivated"
    REFUSED = "refused"


class Server(Model):
    """One that is invited may have no key yet: it gets that of its first registration.

    `devices_most` and `pushes_a_minute` are its quotas, instead of the defaults. `last_…` are the ids of the newest rows
    of its statistics that it has reported, of which nothing else is kept. `created_at` is in UNIX milliseconds.
    """

    class Meta:
        table_name = SERVERS

    server_uuid = UnicodeAttribute(hash_key=True)
    key_hash = BinaryAttribute(null=True, legacy_encoding=False)
    hostname = UnicodeAttribute(null=True)
    contact_email = UnicodeAttribute(null=True)
    state = UnicodeAttribute()
    devices_most = NumberAttribute(null=True)
    pushes_a_minute = NumberAttribute(null=True)
    last_realm_count_id = NumberAttribute(default=0)
    last_installation_count_id = NumberAttribute(default=0)
    last_realmauditlog_id = NumberAttribute(default=0)
    created_at = NumberAttribute()

    @property
    def client_id(self) -> bytes:
        """By which its devices are its own."""
        return UUID(self.server_uuid).bytes

    def __repr__(self) -> str:
        return f"Server({self.server_uuid})"


class Realm(Model):
    """`created_at` is in UNIX milliseconds."""

    class Meta:
        table_name = REALMS

    realm_uuid = UnicodeAttribute(hash_key=True)
    server_uuid = UnicodeAttribute()
    host = UnicodeAttribute(null=True)
    state = UnicodeAttribute()
    created_at = NumberAttribute()

    def __repr__(self) -> str:
        return f"Realm({self.realm_uuid})"


MODELS: tuple[type[Model], ...] = (Server, Realm)


def key_hash(key: str) -> bytes:
    return sha256(key.encode()).digest()


def has_key(server: Server | None, key: str) -> bool:
    """Whether the key is the server's, in a time that says neither how much of it is right nor whether there is one."""
    known = server.key_hash if server else None
    return compare_digest(known or _NO_KEY, key_hash(key)) and known is not None


def find_server(server_uuid: UUID) -> Server | None:
    """As it is now."""
    try:
        return Server.get(str(server_uuid), consistent_read=True)
    except Server.DoesNotExist:
        return None


def find_realm(realm_uuid: UUID) -> Realm | None:
    """As it is now."""
    try:
        return Realm.get(str(realm_uuid), consistent_read=True)
    except Realm.DoesNotExist:
        return None
