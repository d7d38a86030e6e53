"""HPKE's base mode as RFC 9180 describes it, to check by what another implementation has made.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305; the functions are named as in the RFC.
"""

import hmac
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

KEM_ID, KDF_ID, AEAD_ID = (number.to_bytes(2) for number in (0x0020, 0x0001, 0x0003))
KEM_SUITE = b"KEM" + KEM_ID
HPKE_SUITE = b"HPKE" + KEM_ID + KDF_ID + AEAD_ID
MODE_BASE = b"\x00"
N_ENC = 32


class Context(NamedTuple):
    key: bytes
    base_nonce: bytes

    def nonce(self, sequence: int) -> bytes:
        return bytes(one ^ other for one, other in zip(self.base_nonce, sequence.to_bytes(12), strict=True))

    def seal(self, plaintext: bytes, aad: bytes = b"", sequence: int = 0) -> bytes:
        return ChaCha20Poly1305(self.key).encrypt(self.nonce(sequence), plaintext, aad)

    def open(self, ciphertext: bytes, aad: bytes = b"", sequence: int = 0) -> bytes:
        return ChaCha20Poly1305(self.key).decrypt(self.nonce(sequence), ciphertext, aad)


def labeled_extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt, b"HPKE-v1" + suite + label + ikm, "sha256")


def labeled_expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """HKDF-Expand of a single block, which is all that this suite needs."""
    return hmac.digest(prk, length.to_bytes(2) + b"HPKE-v1" + suite + label + info + b"\x01", "sha256")[:length]


def encap(ephemeral: X25519PrivateKey, recipient: X25519PublicKey) -> bytes:
    """The shared secret. What is encapsulated is the ephemeral public key."""
    kem_context = ephemeral.public_key().public_bytes_raw() + recipient.public_bytes_raw()
    return _extract_and_expand(ephemeral.exchange(recipient), kem_context)


def decap(enc: bytes, recipient: X25519PrivateKey) -> bytes:
    kem_context = enc + recipient.public_key().public_bytes_raw()
    return _extract_and_expand(recipient.exchange(X25519PublicKey.from_public_bytes(enc)), kem_context)


def key_schedule(shared_secret: bytes, info: bytes) -> Context:
    """In base mode there is neither a pre-shared key nor its id."""
    context = MODE_BASE + b"".join(
        labeled_extract(HPKE_SUITE, b"", label, value) for label, value in ((b"psk_id_hash", b""), (b"info_hash", info))
    )
    secret = labeled_extract(HPKE_SUITE, shared_secret, b"secret", b"")
    key, nonce = ((b"key", 32), (b"base_nonce", 12))
    return Context(*(labeled_expand(HPKE_SUITE, secret, label, context, length) for label, length in (key, nonce)))


def open_single(sealed: bytes, recipient: X25519PrivateKey, info: bytes) -> bytes:
    """What was sealed alone, from the encapsulated key and the ciphertext that follows it."""
    enc, ciphertext = sealed[:N_ENC], sealed[N_ENC:]
    return key_schedule(decap(enc, recipient), info).open(ciphertext)


def _extract_and_expand(dh: bytes, kem_context: bytes) -> bytes:
    eae_prk = labeled_extract(KEM_SUITE, b"", b"eae_prk", dh)
    return labeled_expand(KEM_SUITE, eae_prk, b"shared_secret", kem_context, 32)
