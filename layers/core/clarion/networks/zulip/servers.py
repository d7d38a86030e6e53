"""Servers and their realms: who may register devices here and push to them.

    ──operator, or its own registration where anybody's is welcome──▶ active ──itself, or operator──▶ deactivated
                                                                        ▲                                │
                                                                        └────────────operator────────────┘

A server authenticates with its UUID and `zulip_org_key`, which it makes itself: 64 random characters, so that their plain
SHA-256 is safe to keep. None is known without it, so that nobody can be the first to name a key for another's UUID. When
it replaces its key, the former one is good for `FORMER_KEY_MS` more: `manage.py register_server --rotate-key` reports by
the former key before it keeps the new one, and the server's processes have it until they are restarted. A realm is an
organization on a server, and of one server alone.
"""

from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from uuid import UUID

from pynamodb.attributes import BinaryAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from clarion.networks.zulip.needs import REALMS, SERVERS
from clarion.tables import find_row

KEY_LENGTH = 64
"""Characters of a `zulip_org_key`."""
FORMER_KEY_MS = 600_000
_NO_KEY = bytes(32)


class ServerState(StrEnum):
    """A `deactivated` one is refused, until the operator adds it again."""

    ACTIVE = "active"
    DEACTIVATED = "deactivated"


class RealmState(StrEnum):
    """Its server says whether it is `deactivated`; one that the operator has `refused` stays so whatever that says."""

    ACTIVE = "active"
    DEACTIVATED = "deactivated"
    REFUSED = "refused"


class Server(Model):
    """`max_devices`, `pushes_a_minute` and `max_realms` are its quotas, instead of the defaults.

    `realms_claimed` counts the realms that it was the first to report. `last_…` are the ids of the newest rows of its
    statistics that it has reported, of which nothing else is kept. `created_at` and `former_key_until` are in UNIX
    milliseconds.
    """

    class Meta:
        table_name = SERVERS

    server_uuid = UnicodeAttribute(hash_key=True)
    key_hash = BinaryAttribute(legacy_encoding=False)
    former_key_hash = BinaryAttribute(legacy_encoding=False, null=True)
    former_key_until = NumberAttribute(default=0)
    hostname = UnicodeAttribute(null=True)
    contact_email = UnicodeAttribute(null=True)
    state = UnicodeAttribute()
    max_devices = NumberAttribute(null=True)
    pushes_a_minute = NumberAttribute(null=True)
    max_realms = NumberAttribute(null=True)
    realms_claimed = NumberAttribute(default=0)
    last_realm_count_id = NumberAttribute(default=0)
    last_installation_count_id = NumberAttribute(default=0)
    last_realmauditlog_id = NumberAttribute(default=0)
    created_at = NumberAttribute()

    @property
    def client_id(self) -> bytes:
        """By which its devices are its own."""
        return UUID(self.server_uuid).bytes

    def key_hashes(self, now: int) -> list[bytes]:
        """Of the keys that are good at `now`, in UNIX milliseconds."""
        return [self.key_hash, *([self.former_key_hash] if now < self.former_key_until else [])]

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


def has_key(server: Server | None, key: str, now: int) -> bool:
    """Whether the key is the server's, in a time that says neither how much of it is right nor whether there is one."""
    known = server.key_hashes(now) if server else [_NO_KEY]
    hashed = key_hash(key)
    return any(compare_digest(one, hashed) for one in known) and server is not None


def find_server(server_uuid: UUID) -> Server | None:
    """As it is now."""
    return find_row(Server, str(server_uuid))


def find_realm(realm_uuid: UUID) -> Realm | None:
    """As it is now."""
    return find_row(Realm, str(realm_uuid))
