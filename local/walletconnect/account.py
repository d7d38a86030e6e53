"""An Ethereum account that signs in: its address, EIP-191 signatures, and the CACAO that authorises an identity key.

https://eips.ethereum.org/EIPS/eip-55, /eip-191, /eip-4361; https://chainagnostic.org/CAIPs/caip-74
"""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import sha3
from coincurve import PrivateKey, PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from local.walletconnect.codec import JsonObject, did_key, did_pkh

ALL_APPS = (
    "I further authorize this app to view and manage my notifications for ALL apps. "
    "Read more at https://walletconnect.com/notifications-all-apps"
)
THIS_APP = "I further authorize this app to send me notifications. Read more at https://walletconnect.com/notifications"
_PERIOD = {"Expiration Time": "exp", "Not Before": "nbf"}
_CHAIN = "eip155:1"
_V_OFFSET = 27


class EthereumAccount:
    """Always the same for the same name."""

    def __init__(self, name: str) -> None:
        self._key = PrivateKey(sha256(f"account of {name}".encode()).digest())
        self.address = _address(self._key.public_key)

    @property
    def caip10(self) -> str:
        return f"{_CHAIN}:{self.address}"

    def sign(self, text: str) -> str:
        signature = self._key.sign_recoverable(_digest(text), hasher=None)
        return "0x" + (signature[:64] + bytes([signature[64] + _V_OFFSET])).hex()

    def authorise(self, identity: Ed25519PublicKey, domain: str, key_server: str, statement: str) -> JsonObject:
        """The CACAO by which this key may act for the account: for one app, whose `domain` it is, or for all."""
        payload = {
            "aud": did_key(identity),
            "statement": statement,
            "domain": domain,
            "iss": did_pkh(self.caip10),
            "nonce": secrets.token_hex(32),
            "iat": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "version": "1",
            "resources": [key_server],
        }
        return {"h": {"t": "eip4361"}, "p": payload, "s": {"t": "eip191", "s": self.sign(message_of(payload))}}


def message_of(payload: Mapping[str, Any]) -> str:
    """What an account signs: the text of "Sign-In with Ethereum"."""
    *_, chain, address = payload["iss"].split(":")
    lines = [
        f"{payload['domain']} wants you to sign in with your Ethereum account:",
        address,
        "",
        *((payload["statement"], "") if payload.get("statement") else ("",)),
        f"URI: {payload['aud']}",
        f"Version: {payload['version']}",
        f"Chain ID: {chain}",
        f"Nonce: {payload['nonce']}",
        f"Issued At: {payload['iat']}",
        *(f"{name}: {payload[claim]}" for name, claim in _PERIOD.items() if claim in payload),
        "Resources:",
        *(f"- {resource}" for resource in payload["resources"]),
    ]
    return "\n".join(lines)


def signer_of(text: str, signature: str) -> str:
    """The address whose key has signed the text. Raises `ValueError`."""
    raw = bytes.fromhex(signature.removeprefix("0x"))
    recoverable = raw[:64] + bytes([raw[64] - _V_OFFSET])
    return _address(PublicKey.from_signature_and_message(recoverable, _digest(text), hasher=None))


def _digest(text: str) -> bytes:
    content = text.encode()
    return _keccak(b"\x19Ethereum Signed Message:\n" + str(len(content)).encode() + content)


def _address(key: PublicKey) -> str:
    """Its letters' case is a checksum."""
    digits = _keccak(key.format(compressed=False)[1:])[-20:].hex()
    checksum = _keccak(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if int(check, 16) >= 8 else digit for digit, check in zip(digits, checksum, strict=False)
    )


def _keccak(content: bytes) -> bytes:
    digest: bytes = sha3.keccak_256(content).digest()
    return digest
