"""What is published: JSON-RPC with a token in it, sealed so that the same content is always the same message.

A step that is done again publishes what it published before, byte for byte, and the relay and its readers know it. So the
numbers of our requests are always the same for the same request, and exact in JavaScript, up to 2**53. A notification's
begins with its own number, in the upper 21 bits: so what a receipt is for is found.
https://www.jsonrpc.org/specification
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256

from clarion import compact_json
from clarion.networks.walletconnect.envelope import NONCE_BYTES, seal, topic_of
from clarion.networks.walletconnect.notifications import SentNotification
from clarion.networks.walletconnect.relay import Publication, publication

type RpcId = int | str

REFUSED = -1
"""The code of all errors, as the server that was shipped has it."""
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


def request(act: str, rpc_id: RpcId, method: str, params: Mapping[str, str], key: bytes) -> Publication:
    """A request of ours; `key` is its topic's."""
    return _sealed(act, {"id": rpc_id, "jsonrpc": "2.0", "method": method, "params": params}, key)


def result(act: str, rpc_id: RpcId, content: Mapping[str, str], key: bytes) -> Publication:
    """The answer to the request `rpc_id`, where it is expected: on the topic of `key`."""
    return _sealed(act, {"id": rpc_id, "jsonrpc": "2.0", "result": content}, key)


def error(act: str, rpc_id: RpcId, text: str, key: bytes) -> Publication:
    return _sealed(act, {"id": rpc_id, "jsonrpc": "2.0", "error": {"code": REFUSED, "message": text}}, key)


def _sealed(act: str, content: Mapping[str, object], key: bytes) -> Publication:
    raw = compact_json.encode(content)
    return publication(topic_of(key), seal(raw, key, _nonce(raw, key)), act)


def _nonce(content: bytes, key: bytes) -> bytes:
    """Serves for no other content: whoever lacks the key can't tell it from a random one."""
    return hmac.digest(key, content, "sha256")[:NONCE_BYTES]
