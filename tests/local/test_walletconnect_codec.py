"""What the other side writes and reads, held against what WalletConnect's own packages wrote."""

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from local.walletconnect.account import EthereumAccount, message_of, signer_of
from local.walletconnect.codec import (
    claims_of,
    did_key,
    open_envelope,
    raw_key,
    seal,
    sender_of,
    shared_key,
    topic_of,
    verified,
)
from local.walletconnect.dapp import AUTHENTICATION_KEY, SUBSCRIBE_KEY, did_document, keys_of

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "walletconnect.json").read_text())
CAPTURE = VECTORS["live_capture"]
SIGNED = [each for each in VECTORS["cacaos"] if each["package_verifies"]]


@pytest.mark.parametrize("publish", CAPTURE["publishes"])
def test_every_envelope_of_a_real_client_opens_by_its_key(publish: dict[str, Any]) -> None:
    opened = open_envelope(publish["message"], bytes.fromhex(publish["sym_key"]))

    assert json.loads(opened.content) == publish["decrypted"]
    assert (opened.sender or b"").hex() == publish.get("sender_public_key", "")


@pytest.mark.parametrize("publish", [each for each in CAPTURE["publishes"] if each.get("jwt_python") == "ok"])
def test_every_jwt_of_a_real_client_is_its_issuers(publish: dict[str, Any]) -> None:
    assert verified(publish["jwt"]) == claims_of(publish["jwt"]) == publish["claims"]


def test_a_jwt_that_another_key_has_signed_is_nobodys() -> None:
    [forged] = [each["jwt"] for each in CAPTURE["publishes"] if each.get("jwt_python") == "bad_signature"]
    with pytest.raises(jwt.InvalidSignatureError):
        verified(forged)


def test_topics_follow_from_keys() -> None:
    keys, topics = CAPTURE["keys"], CAPTURE["keys"]["topics"]
    assert topic_of(bytes.fromhex(keys["dapp_x25519"]["pub"])) == topics["subscribe"]
    assert topic_of(bytes.fromhex(keys["server_x25519"]["pub"])) == topics["watch"]


def test_both_sides_agree_on_a_key() -> None:
    keys, subscribe = CAPTURE["keys"], CAPTURE["publishes"][2]
    private_key = X25519PrivateKey.from_private_bytes(bytes.fromhex(keys["dapp_x25519"]["priv"]))
    assert shared_key(private_key, sender_of(subscribe["message"])).hex() == subscribe["sym_key"]


def test_dids_name_public_keys() -> None:
    did = VECTORS["did_key_x25519_example"]
    assert did_key(X25519PublicKey.from_public_bytes(raw_key(did))) == did
    with pytest.raises(ValueError, match="no public key"):
        raw_key("did:key:z6Mk")


def test_the_relays_jwt_of_a_real_client_is_its_own() -> None:
    assert verified(VECTORS["relay_auth"]["jwt"])["aud"] == "wss://relay.walletconnect.com"


@pytest.mark.parametrize("publish", CAPTURE["publishes"][:1])
def test_what_is_sealed_opens_for_nobody_else(publish: dict[str, Any]) -> None:
    key, own = bytes.fromhex(publish["sym_key"]), X25519PrivateKey.generate()
    sealed = seal(b"content", key, sender=own.public_key())

    assert open_envelope(sealed, key).content == b"content"
    assert sender_of(sealed) == own.public_key().public_bytes_raw()
    with pytest.raises(InvalidTag):
        open_envelope(sealed, bytes(32))


@pytest.mark.parametrize("cacao", SIGNED, ids=lambda cacao: cacao["case"])
def test_what_an_account_signs_is_as_others_write_it(cacao: dict[str, Any]) -> None:
    signed = cacao["keys_server_response"]["value"]["cacao"]
    assert signer_of(cacao["siwe_message"], signed["s"]["s"]) == VECTORS["account"]["address"]
    if "walletconnect_identity_key" not in signed["p"]["aud"]:
        assert message_of(signed["p"]) == cacao["siwe_message"]


def test_an_account_signs_for_itself() -> None:
    alice = EthereumAccount("Alice")
    assert signer_of("hello", alice.sign("hello")) == alice.address
    assert signer_of("hello", EthereumAccount("Mallory").sign("hello")) != alice.address


def test_a_did_document_publishes_keys() -> None:
    keys = {SUBSCRIBE_KEY: bytes(range(32)), AUTHENTICATION_KEY: bytes(range(32, 64))}
    assert keys_of(did_document("app.dapp.example", keys)) == keys
