"""`did.json`: where a domain publishes the keys by which wallets reach it. https://w3c-ccg.github.io/did-method-web"""

from typing import Any

from clarion import base64url
from clarion.networks.walletconnect.did import domain_did


def did_document(domain: str, subscribe_key: bytes, authentication_key: bytes) -> dict[str, Any]:
    """Of a dapp, or of the Notify server; the keys are public ones, of 32 bytes each."""
    did = domain_did(domain)
    keys = {
        f"{did}#wc-notify-subscribe-key": ("X25519", subscribe_key),
        f"{did}#wc-notify-authentication-key": ("Ed25519", authentication_key),
    }
    agreement, authentication = keys
    return {
        "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/jws-2020/v1"],
        "id": did,
        "verificationMethod": [
            {
                "id": name,
                "type": "JsonWebKey2020",
                "controller": did,
                "publicKeyJwk": {"kty": "OKP", "crv": curve, "x": base64url.encode(key)},
            }
            for name, (curve, key) in keys.items()
        ],
        "keyAgreement": [agreement],
        "authentication": [authentication],
    }
