"""The Notify server's keys, and the `did.json` that publishes two of them."""

from hashlib import sha256

import pytest
from pydantic import ValidationError

from clarion import base64url
from clarion.networks.walletconnect.did_document import did_document
from clarion.networks.walletconnect.server_keys import ServerKeys


def test_keys_are_read_as_they_are_written() -> None:
    made = ServerKeys.generate()
    assert ServerKeys.model_validate_json(made.text) == made
    assert made != ServerKeys.generate()


def test_no_key_is_shown() -> None:
    made = ServerKeys.generate()
    for shown in (repr(made), str(made), f"{made}"):
        assert not any(key in shown for key in made.model_dump().values())


def test_a_flawed_key_is_refused_without_being_quoted() -> None:
    with pytest.raises(ValidationError) as refused:
        ServerKeys.model_validate(ServerKeys.generate().model_dump() | {"relay_key": "5ec4e7" * 10})
    assert "5ec4e7" not in str(refused.value)


def test_watchers_send_to_the_topic_of_the_published_key() -> None:
    keys = ServerKeys.generate()
    public = keys.subscribe.public_key().public_bytes_raw()
    assert keys.watch_topic == sha256(public).hexdigest()


def test_a_did_document_names_both_keys_by_their_use() -> None:
    found = did_document("notify.example.org", b"s" * 32, b"a" * 32)
    keys = {method["id"]: method["publicKeyJwk"] for method in found["verificationMethod"]}
    assert found["id"] == "did:web:notify.example.org"
    assert keys == {
        f"{found['id']}#wc-notify-subscribe-key": {"kty": "OKP", "crv": "X25519", "x": base64url.encode(b"s" * 32)},
        f"{found['id']}#wc-notify-authentication-key": {
            "kty": "OKP",
            "crv": "Ed25519",
            "x": base64url.encode(b"a" * 32),
        },
    }
    assert (*found["keyAgreement"], *found["authentication"]) == tuple(keys)
