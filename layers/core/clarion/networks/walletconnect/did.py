"""The identifiers of all who take part, as text.

    did:key:z6Mk…                 whoever holds an Ed25519 key
    did:key:z6LS…                 whoever holds an X25519 key
    did:pkh:eip155:1:0x931E…      an account of a chain, as CAIP-10 and EIP-55 spell it
    did:web:app.example.com       a dapp, by its domain

https://w3c-ccg.github.io/did-key-spec, https://chainagnostic.org/CAIPs/caip-10
Each is read in the one spelling that is written here: two that differ are two parties.
"""

import re
from enum import Enum

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from clarion.networks.walletconnect.ethereum import checksummed

KEY_BYTES = 32
_KEY, _ACCOUNT, _DOMAIN = "did:key:z", "did:pkh:", "did:web:"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_KEY_DID_CHARACTERS = len(_KEY) + 47
_CAIP_10 = re.compile(r"eip155:(?:0|[1-9][0-9]{0,31}):0x([0-9a-fA-F]{40})")
_DOMAIN_NAME = re.compile(r"[a-z0-9._-]{1,253}")


class KeyType(Enum):
    """By the multicodec that stands before the key: https://github.com/multiformats/multicodec"""

    ED25519 = b"\xed\x01"
    X25519 = b"\xec\x01"


class MalformedDid(ValueError):  # noqa: N818 - it names what was received, as `Malformed` does
    """Not an identifier of the kind that is asked for."""


def key_did(key: bytes, key_type: KeyType) -> str:
    """`key` is a raw public key of 32 bytes. No multicodec begins with a zero, which base58 would write apart."""
    number, digits = int.from_bytes(key_type.value + key), ""
    while number:
        number, digit = divmod(number, len(_BASE58))
        digits = _BASE58[digit] + digits
    return _KEY + digits


def public_did(private_key: Ed25519PrivateKey | X25519PrivateKey) -> str:
    """The did:key of its public key."""
    key_type = KeyType.ED25519 if isinstance(private_key, Ed25519PrivateKey) else KeyType.X25519
    return key_did(private_key.public_key().public_bytes_raw(), key_type)


def key_of(did: str, key_type: KeyType) -> bytes:
    """Raises `MalformedDid`, also for a key of another type."""
    if len(did) != _KEY_DID_CHARACTERS:
        raise MalformedDid("not as long as a did:key")
    # What is not such a text gives some other key, which is spelled otherwise.
    number = 0
    for digit in did.removeprefix(_KEY):
        number = number * len(_BASE58) + _BASE58.find(digit)
    key = (number % (1 << 8 * KEY_BYTES)).to_bytes(KEY_BYTES)
    if key_did(key, key_type) != did:
        raise MalformedDid("not a did:key of this type")
    return key


def account_did(account: str) -> str:
    return _ACCOUNT + account


def account_of(did: str) -> str:
    """The account, as `eip155:<chain>:<address>`. Raises `MalformedDid`."""
    account = did.removeprefix(_ACCOUNT)
    if account == did or not is_account(account):
        raise MalformedDid("not a did:pkh of Ethereum")
    return account


def is_account(text: str) -> bool:
    """Whether it is one of Ethereum's or of a chain that is made like it, with a sound checksum."""
    matched = _CAIP_10.fullmatch(text)
    return matched is not None and text.endswith(checksummed(bytes.fromhex(matched[1])))


def domain_did(domain: str) -> str:
    return _DOMAIN + domain


def domain_of(did: str) -> str:
    """Raises `MalformedDid`, also for a port or a path, which a dapp's has not."""
    domain = did.removeprefix(_DOMAIN)
    if domain == did or not _DOMAIN_NAME.fullmatch(domain):
        raise MalformedDid("not a did:web of a domain")
    return domain
