"""How many codes may be asked for in an hour.

A stranger who knows a device's token and asks again and again uses up what the stranger's network address may have, and
not what the device's owner may. How many tokens an address may register, made-up ones as well, is `ntf.bounds`.
"""

from clarion.channels import Channel
from clarion.networks.simplex.bounds import CODES_OF_DEVICE, CODES_OF_DEVICE_AND_PEER
from clarion.networks.simplex.errors import ErrorType
from clarion.networks.simplex.ntf import NtfRequest
from clarion.networks.simplex.ntf_commands import NtfRefusal
from clarion.tables import Quota, update_if
from clarion.tokens import token_hash
from ntf.commands.store import NtfStore

_HOUR = 3600


def require_code(store: NtfStore, request: NtfRequest, address: str) -> None:
    """For the device at `address`. Raises `NtfRefusal`; one that asks again and again costs a single request each time."""
    device = token_hash(Channel.APNS, address)
    _require(store, _name(store, device, request.session.peer.encode()), CODES_OF_DEVICE_AND_PEER)
    _require(store, _name(store, device), CODES_OF_DEVICE)


def _require(store: NtfStore, name: str, most: int) -> None:
    now = store.clock() // 1000
    quota = Quota(f"simplex-codes:{name}:{now // _HOUR}")
    enough = Quota.quota.does_not_exist() | (Quota.used < most)
    if not update_if(quota, Quota.used.add(1), Quota.ttl.set(now + 2 * _HOUR), condition=enough):
        raise NtfRefusal(ErrorType.QUOTA)


def _name(store: NtfStore, *counted: bytes) -> str:
    """The table shows neither addresses nor devices."""
    return store.key.id_of(b"codes", *counted).hex()
