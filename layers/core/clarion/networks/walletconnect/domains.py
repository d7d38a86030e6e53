"""Which project has a domain. Its keys are made when it is claimed first, and stay the domain's whoever has it.

    nobody's ──a project claims it──▶ the project's ──the operator moves it──▶ another project's

A project notifies the subscribers of one domain. If the operator gives it another, the first one stays its own.
"""

import os
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pynamodb.connection import Connection
from pynamodb.transactions import TransactWrite

from clarion.networks.walletconnect.did import KEY_BYTES
from clarion.networks.walletconnect.envelope import topic_of
from clarion.networks.walletconnect.projects import DappApp, Project, find_app
from clarion.networks.walletconnect.topics import TopicKind, followed
from clarion.tables import transact


class AppKeys(NamedTuple):
    """Of 32 bytes each: an X25519 key and an Ed25519 key."""

    subscribe: bytes
    authentication: bytes


def public_keys(app: DappApp) -> AppKeys:
    subscribe = X25519PrivateKey.from_private_bytes(app.subscribe_key)
    authentication = Ed25519PrivateKey.from_private_bytes(app.authentication_key)
    return AppKeys(subscribe.public_key().public_bytes_raw(), authentication.public_key().public_bytes_raw())


def claim(connection: Connection, project: Project, domain: str, now_ms: int) -> DappApp | None:
    """The domain's app, which is the project's from now on unless another has it. `now_ms` is in UNIX milliseconds.

    None if a concurrent claim or move has made the transaction fail; the call may be repeated.
    """
    app = find_app(domain, consistent_read=True) or _made(connection, project, domain, now_ms)
    if app is None or app.project_id != project.project_id or project.app == domain:
        return app
    if not _name(connection, app, project):
        return None
    # The router keeps the row for a minute.
    project.app = domain
    return app


def move(connection: Connection, app: DappApp, owner: Project | None, project: Project) -> bool:
    """Give the domain of `owner` to another project, with its subscribers. False if the owner has changed meanwhile."""

    def write(transaction: TransactWrite) -> None:
        same_owner = DappApp.project_id == app.project_id
        transaction.update(app, [DappApp.project_id.set(project.project_id)], condition=same_owner)
        transaction.update(project, [Project.app.set(app.app)])
        if owner is not None:
            _release(transaction, owner, app.app)

    return transact(connection, write)


def _name(connection: Connection, app: DappApp, project: Project) -> bool:
    """Let the project's row name the domain, if the project still has it."""

    def write(transaction: TransactWrite) -> None:
        still_has = DappApp.project_id == project.project_id
        transaction.update(app, [DappApp.project_id.set(project.project_id)], condition=still_has)
        transaction.update(project, [Project.app.set(app.app)])

    return transact(connection, write)


def _release(transaction: TransactWrite, owner: Project, domain: str) -> None:
    """Its row names the domain no longer; one that has changed since it was read fails the transaction."""
    as_read = Project.app.does_not_exist() if owner.app is None else Project.app == owner.app
    other = owner.app if owner.app != domain else None
    action = Project.app.remove() if other is None else Project.app.set(other)
    transaction.update(owner, [action], condition=as_read)


def _made(connection: Connection, project: Project, domain: str, now_ms: int) -> DappApp | None:
    """Of several who make it at once, the first one's."""
    app = DappApp(
        domain,
        project_id=project.project_id,
        subscribe_key=os.urandom(KEY_BYTES),
        authentication_key=os.urandom(KEY_BYTES),
        created_at=now_ms,
    )
    topic = followed(topic_of(public_keys(app).subscribe), TopicKind.APP, domain, now_ms)

    def write(transaction: TransactWrite) -> None:
        transaction.save(app, condition=DappApp.app.does_not_exist())
        transaction.save(topic)

    return app if transact(connection, write) else find_app(domain, consistent_read=True)
