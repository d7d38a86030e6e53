"""What the relay passes on: bytes that only the holders of a topic's key can open, in base64.

    type 0   00 ++ nonce (12) ++ sealed                            by a key that both sides have
    type 1   01 ++ sender's key (32) ++ nonce (12) ++ sealed       for whoever published an X25519 key: a first message

`sealed` is ChaCha20-Poly1305 without associated data. The key for type 1 is agreed on by X25519 and HKDF; the answer to
such a message is of type 0, under the same key. A topic is the hash of a key: of the published one, where the first
message goes, and of the agreed one afterwards.
https://github.com/WalletConnect/walletconnect-specs/blob/main/docs/specs/clients/core/crypto/crypto-envelopes.md
"""

import os
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from clarion.networks import Malformed
from clarion.networks.walletconnect.did import KEY_BYTES

NONCE_BYTES = 12
_TYPE_0, _TYPE_1 = b"\0", b"\1"


class UnreadableEnvelope(Malformed):
    """Not of this type, or not sealed for this key."""


@dataclass(frozen=True)
class FirstMessage:
    """What was in an envelope of type 1. `key` is the agreed one, under which the answer goes; `sender` a public key."""

    content: bytes = field(repr=False)
    key: bytes = field(repr=False)
    sender: bytes = field(repr=False)


def topic_of(key: bytes) -> str:
    return sha256(key).hexdigest()


def agreed_key(private_key: X25519PrivateKey, public_key: bytes) -> bytes:
    """Raises `ValueError` for a public key of low order, or of another size than 32 bytes."""
    shared = private_key.exchange(X25519PublicKey.from_public_bytes(public_key))
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"").derive(shared)


def seal(content: bytes, key: bytes, nonce: bytes | None = None) -> str:
    """Of type 0. A nonce must never serve twice; without one it is random."""
    return b64encode(_TYPE_0 + _encrypted(content, key, nonce)).decode()


def seal_first(content: bytes, sender: X25519PrivateKey, public_key: bytes, nonce: bytes | None = None) -> str:
    """Of type 1, for whoever published `public_key`."""
    encrypted = _encrypted(content, agreed_key(sender, public_key), nonce)
    return b64encode(_TYPE_1 + sender.public_key().public_bytes_raw() + encrypted).decode()


def open_sealed(message: str, key: bytes) -> bytes:
    """The content of an envelope of type 0. Raises `UnreadableEnvelope`."""
    return _decrypted(_without_type(message, _TYPE_0), key)


def open_first(message: str, private_key: X25519PrivateKey) -> FirstMessage:
    """The content of an envelope of type 1, for the key that `private_key` belongs to. Raises `UnreadableEnvelope`."""
    rest = _without_type(message, _TYPE_1)
    sender, sealed = rest[:KEY_BYTES], rest[KEY_BYTES:]
    try:
        key = agreed_key(private_key, sender)
    except ValueError:
        raise UnreadableEnvelope("no key can be agreed on") from None
    return FirstMessage(_decrypted(sealed, key), key, sender)


def _without_type(message: str, expected: bytes) -> bytes:
    """Each envelope has one text: a message is known again by its own."""
    try:
        raw = b64decode(message, validate=True)
    except ValueError:
        raise UnreadableEnvelope("not base64") from None
    if b64encode(raw).decode() != message:
        raise UnreadableEnvelope("not base64 as it is written")
    if not raw.startswith(expected):
        raise UnreadableEnvelope("not of this type")
    return raw[1:]


def _encrypted(content: bytes, key: bytes, nonce: bytes | None) -> bytes:
    chosen = nonce or os.urandom(NONCE_BYTES)
    return chosen + ChaCha20Poly1305(key).encrypt(chosen, content, None)


def _decrypted(sealed: bytes, key: bytes) -> bytes:
    nonce, encrypted = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, encrypted, None)
    except (InvalidTag, ValueError):
        raise UnreadableEnvelope("not sealed with this key") from None
