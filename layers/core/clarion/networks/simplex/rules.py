"""Rules: a key is a queue, without a condition. A queue's key is also the id of the subscription to it.

queue key    SHA-256 of the queue as agents send it, cut to 24 bytes
rule key     the network's number ++ queue key
"""

from hashlib import sha256

from clarion.networks import Rule
from clarion.networks.simplex.addresses import SmpQueue

NUMBER = b"\x05"
QUEUE_KEY_BYTES = 24


def queue_key(queue: SmpQueue) -> bytes:
    """24 bytes, as all ids of the NTF server have."""
    return sha256(queue.encoded).digest()[:QUEUE_KEY_BYTES]


def key_of(of_queue: bytes) -> bytes:
    """25 bytes; `of_queue` is the `queue_key`."""
    return NUMBER + of_queue


def queue_key_of(key: bytes) -> bytes:
    """Undo `key_of`."""
    return key[len(NUMBER) :]


def describe(rule: Rule) -> dict[str, str]:
    return {"queue": queue_key_of(rule.key).hex()}
