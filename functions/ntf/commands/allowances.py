"""How many tokens may be registered, and codes asked for, in an hour.

Whoever asks is counted by the network address, and codes to a device by both: a stranger who knows a device's token and
asks again and again uses up what that address may, and not what the device's owner may.
"""

from clarion.channels import Channel
from clarion.networks.simplex.bounds import CODES_OF_DEVICE, CODES_OF_DEVICE_AND_PEER, REGISTRATIONS_OF_PEER
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import NtfRequest
from clarion.networks.simplex.ntf_commands import NtfRefusal
from clarion.tables import Quota, update_if
from clarion.tokens import token_hash
from ntf.commands.store import NtfStore

_HOUR = 3600


def require_registration(store: NtfStore, request: NtfRequest) -> None:
    """For one more token from this address. Raises `NtfRefusal`, as all here."""
    _require(store, _name(store, request.session.peer.encode()), REGISTRATIONS_OF_PEER)


def require_code(store: NtfStore, request: NtfRequest, address: str) -> None:
    """For one more code to the device at `address`: what hammers costs one request."""
    device = token_hash(Channel.APNS, address)
    _require(store, _name(store, device, request.session.peer.encode()), CODES_OF_DEVICE_AND_PEER)
    _require(store, _name(store, device), CODES_OF_DEVICE)


def _require(store: NtfStore, name: str, most: int) -> None:
    now = store.clock() // 1000
    quota = Quota(f"simplex:{name}:{now // _HOUR}")
    enough = Quota.quota.does_not_exist() | (Quota.used < most)
    if not update_if(quota, Quota.used.add(1), Quota.ttl.set(now + 2 * _HOUR), condition=enough):
        raise NtfRefusal(ErrorType.QUOTA)


def _name(store: NtfStore, *counted: bytes) -> str:
    """The table shows neither addresses nor devices."""
    return store.key.id_of(b"quota", *counted).hex()
