"""The numbers of our JSON-RPC requests: always the same for the same request, and exact in JavaScript, up to 2**53.

A notification's begins with its own number, in the upper 21 bits: so what a receipt is for is found.
"""

from hashlib import sha256

from clarion.networks.walletconnect.notifications import SentNotification

_EXACT, _RANDOM_BITS = 1 << 53, 32


def rpc_id_of(row: SentNotification) -> int:
    """Most likely no other's, whatever the subscription."""
    random = sha256(row.notification_id.encode()).digest()[: _RANDOM_BITS // 8]
    return int(row.number) << _RANDOM_BITS | int.from_bytes(random)


def number_of(rpc_id: int) -> int:
    """The number of the notification. Raises `ValueError` for what can't be a notification's."""
    if not 0 <= rpc_id < _EXACT:
        raise ValueError("no notification's")
    return rpc_id >> _RANDOM_BITS


def rpc_id_for(name: str) -> int:
    """Of whatever else; `name` says what it is about."""
    return int.from_bytes(sha256(name.encode()).digest()[:7]) >> 3
