"""A wallet of WalletConnect that plays its part in tests: an account, and an identity key that it lets sign."""

from collections.abc import Mapping
from typing import Any

from coincurve import PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sha3 import keccak_256

from clarion.networks.walletconnect.did import KeyType, account_did, account_of, key_did
from clarion.networks.walletconnect.ethereum import address_of
from clarion.networks.walletconnect.siwe import SiwePayload, message_of

THIS_APP = "I further authorize this app to send me notifications. Read more at https://walletconnect.com/notifications"


class Wallet:
    def __init__(self, secret: bytes = b"w" * 32, identity_secret: bytes | None = None) -> None:
        self._account_key = PrivateKey(secret)
        self.identity_key = Ed25519PrivateKey.from_private_bytes(identity_secret or secret)
        self.key_did = key_did(self.identity_key.public_key().public_bytes_raw(), KeyType.ED25519)
        self.subject = account_did(f"eip155:1:{address_of(self._account_key.public_key)}")

    def with_identity_key(self, secret: bytes) -> "Wallet":
        """Of the same account, on another phone."""
        return Wallet(self._account_key.secret, secret)

    @property
    def account(self) -> str:
        return account_of(self.subject)

    @property
    def identity_public_key(self) -> str:
        return self.key_did.rpartition(":")[2]

    def payload(self, **fields: Any) -> dict[str, Any]:
        """For any app's own notifications, but for these fields."""
        return {
            "domain": "app.example.com",
            "iss": self.subject,
            "aud": self.key_did,
            "version": "1",
            "nonce": "32891756",
            "iat": "2023-11-14T22:13:20.000Z",
            "statement": THIS_APP,
        } | fields

    def cacao(self, **fields: Any) -> dict[str, Any]:
        payload = self.payload(**fields)
        return self.signed(payload, message_of(SiwePayload.model_validate(payload)))

    def signed(self, payload: Mapping[str, Any], message: str) -> dict[str, Any]:
        return {
            "h": {"t": "eip4361"},
            "p": dict(payload),
            "s": {"t": "eip191", "s": "0x" + self.personal_sign(message).hex()},
        }

    def personal_sign(self, message: str) -> bytes:
        text = message.encode()
        signed = f"\x19Ethereum Signed Message:\n{len(text)}".encode() + text
        signature = self._account_key.sign_recoverable(signed, hasher=lambda raw: bytes(keccak_256(raw).digest()))
        return signature[:64] + bytes([signature[64] + 27])
