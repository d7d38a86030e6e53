"""Projects and their apps: which dapp may notify, under which keys, about what.

A project authenticates with a secret, of which its SHA-256 is kept. An app is a domain, and of one project alone; the
private halves of its two keys stay here, and their public ones stand in the `did.json` of its domain.
"""

from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import TypedDict

from pynamodb.attributes import BinaryAttribute, JSONAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import APPS, PROJECTS
from clarion.tables import find_row

_NO_SECRET = bytes(32)


class ProjectState(StrEnum):
    """One that is `deactivated` is refused."""

    ACTIVE = "active"
    DEACTIVATED = "deactivated"


class NotificationType(TypedDict):
    """What wallets show of it. `image_url` may be empty."""

    name: str
    description: str
    image_url: str


class Welcome(TypedDict):
    """What a new subscriber is sent, if its scope has the type."""

    enabled: bool
    type: str
    title: str
    body: str
    url: str | None


class Project(Model):
    """`project_id` has 32 hex digits. `types` go by their UUIDs. `created_at` is in UNIX milliseconds.

    `app` is the domain that it has claimed, if any.
    """

    class Meta:
        table_name = PROJECTS

    project_id = UnicodeAttribute(hash_key=True)
    secret_hash = BinaryAttribute(legacy_encoding=False)
    name = UnicodeAttribute()
    app = UnicodeAttribute(null=True)
    welcome = JSONAttribute(null=True)
    types = JSONAttribute(default=dict)
    state = UnicodeAttribute(default=ProjectState.ACTIVE.value)
    created_at = NumberAttribute()

    def __repr__(self) -> str:
        return f"Project({self.project_id})"


class DappApp(Model):
    """`subscribe_key` (X25519) and `authentication_key` (Ed25519) are private keys of 32 bytes.

    What was kept for its subscriber until `read_through` counts as read. Instants are in UNIX milliseconds.
    """

    class Meta:
        table_name = APPS

    app = UnicodeAttribute(hash_key=True)
    project_id = UnicodeAttribute()
    subscribe_key = BinaryAttribute(legacy_encoding=False)
    authentication_key = BinaryAttribute(legacy_encoding=False)
    read_through = NumberAttribute(default=0)
    created_at = NumberAttribute()

    def __repr__(self) -> str:
        return f"DappApp({self.app})"


def secret_hash(secret: str) -> bytes:
    """Of a random secret, which needs no salt."""
    return sha256(secret.encode()).digest()


def has_secret(project: Project | None, secret: str) -> bool:
    """Whether it is the project's, in a time that says neither how much of it is right nor whether there is one."""
    known = project.secret_hash if project else None
    return compare_digest(known or _NO_SECRET, secret_hash(secret)) and known is not None


def find_project(project_id: str) -> Project | None:
    """As it is now."""
    return find_row(Project, project_id)


def find_app(app: str, *, consistent_read: bool = False) -> DappApp | None:
    return find_row(DappApp, app, consistent_read=consistent_read)


def app_of(project_id: str, domain: str) -> DappApp | None:
    """The domain's app if the project has it. What may have been moved just now is read again, as it is now."""
    found = find_app(domain)
    if found is None or found.project_id != project_id:
        found = find_app(domain, consistent_read=True)
    return found if found is not None and found.project_id == project_id else None
