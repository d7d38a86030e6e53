"""`clarion simplex identity …` and `address`: what agents know the NTF server by."""

from datetime import UTC, datetime

from pydantic import ValidationError

from clarion.networks.simplex.addresses import NTF_PORT, ntf_address
from clarion.networks.simplex.needs import IDENTITY
from clarion.networks.simplex.server_identity import ServerIdentity
from console import stored_secrets
from console.deployment import Deployment
from console.faults import Trouble
from console.output import Report, confirm
from console.stored_secrets import StoredSecret


class IdentityChange(Report):
    """`made` is False if there was an identity already; `fingerprint` is its SHA-256 in hex."""

    wrapped = False

    stage: str
    made: bool
    rotated: bool
    fingerprint: str

    def __rich__(self) -> str:
        if self.rotated:
            return f"The NTF server of {self.stage} has a new leaf, which its tasks use once they are started anew."
        has = "has a new identity" if self.made else "has its identity already"
        return f"The NTF server of {self.stage} {has}: {self.fingerprint}"


class NtfAddress(Report):
    wrapped = False

    stage: str
    address: str

    def __rich__(self) -> str:
        return self.address


def create(here: Deployment, *, yes: bool) -> IdentityChange:
    """Make an identity if there is none. One that apps know must never be replaced: they accept no other."""
    stored = _stored(here)
    known = _identity_of(stored)
    if known is None:
        confirm(f"Make the identity of the NTF server of {here}, in place of what {stored.secret_id} holds?", yes=yes)
    identity = known or ServerIdentity.generate(datetime.now(UTC))
    if known is None:
        stored_secrets.replace(stored, identity.text)
    return _change(here, identity, made=known is None)


def rotate(here: Deployment, *, yes: bool) -> IdentityChange:
    """Give the server a new key for its sessions, under the same address. Raises `Trouble` if there is no identity."""
    stored = _stored(here)
    identity = _required(here, stored)
    confirm(f"Give the NTF server of {here} a new leaf? Its address stays.", yes=yes)
    stored_secrets.replace(stored, identity.with_new_leaf(datetime.now(UTC)).text)
    return _change(here, identity, rotated=True)


def address(here: Deployment, hosts: tuple[str, ...], port: int = NTF_PORT) -> NtfAddress:
    """Raises `Trouble` if there is no identity."""
    identity = _required(here, _stored(here))
    return NtfAddress(stage=here.stage, address=ntf_address(identity.fingerprint, hosts, port))


def _stored(here: Deployment) -> StoredSecret:
    return stored_secrets.read(f"{here.prefix}{IDENTITY}")


def _identity_of(stored: StoredSecret) -> ServerIdentity | None:
    try:
        return ServerIdentity.model_validate_json(stored.text)
    except ValidationError:
        return None


def _required(here: Deployment, stored: StoredSecret) -> ServerIdentity:
    identity = _identity_of(stored)
    if identity is None:
        raise Trouble(f"the NTF server of {here} has no identity: `clarion simplex identity create` makes one")
    return identity


def _change(here: Deployment, identity: ServerIdentity, *, made: bool = False, rotated: bool = False) -> IdentityChange:
    return IdentityChange(stage=here.stage, made=made, rotated=rotated, fingerprint=identity.fingerprint.hex())
