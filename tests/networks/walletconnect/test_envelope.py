import json
from base64 import b64decode, b64encode
from dataclasses import astuple

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks import Malformed
from clarion.networks.walletconnect.envelope import (
    FirstMessage,
    UnreadableEnvelope,
    agreed_key,
    open_first,
    open_sealed,
    seal,
    seal_first,
    topic_of,
)
from tests.networks.walletconnect.conftest import Vector

KEYS = st.binary(min_size=32, max_size=32)
KEY = b"k" * 32
OURS, THEIRS = (X25519PrivateKey.from_private_bytes(seed * 32) for seed in (b"o", b"t"))
OUR_PUBLIC_KEY = OURS.public_key().public_bytes_raw()


def test_what_the_real_client_sent_or_took_opens_to_what_it_says(vectors: Vector, publish: Vector) -> None:
    if publish["envelope_type"] == 0:
        content = open_sealed(publish["message"], bytes.fromhex(publish["sym_key"]))
    else:
        ours = X25519PrivateKey.from_private_bytes(published(vectors, publish, "priv"))
        content, key, sender = astuple(open_first(publish["message"], ours))
        assert (key.hex(), sender.hex()) == (publish["sym_key"], publish["sender_public_key"])
    assert json.loads(content) == publish["decrypted"]


def published(vectors: Vector, publish: Vector, half: str) -> bytes:
    """Half of the pair whose public key the topic of a first message is made of."""
    keys = vectors["live_capture"]["keys"]
    owner = "dapp_x25519" if publish["topic"] == keys["topics"]["subscribe"] else "server_x25519"
    return bytes.fromhex(keys[owner][half])


def test_it_went_to_the_topic_of_its_key(vectors: Vector, publish: Vector) -> None:
    first = publish["envelope_type"] == 1
    key = published(vectors, publish, "pub") if first else bytes.fromhex(publish["sym_key"])
    assert topic_of(key) == publish["topic"]


def test_with_its_nonce_an_envelope_of_type_0_is_sealed_as_it_was(publish: Vector) -> None:
    if publish["envelope_type"] == 1:
        return
    key, nonce = bytes.fromhex(publish["sym_key"]), b64decode(publish["message"])[1:13]
    assert seal(open_sealed(publish["message"], key), key, nonce) == publish["message"]


@given(content=st.binary(), key=KEYS)
def test_what_is_sealed_opens_with_the_same_key_alone(content: bytes, key: bytes) -> None:
    sealed = seal(content, key)
    assert open_sealed(sealed, key) == content
    with pytest.raises(UnreadableEnvelope):
        open_sealed(sealed, KEY if key != KEY else bytes(32))


@given(content=st.binary(), secret=KEYS)
def test_a_first_message_opens_for_whom_it_is_and_names_the_key_of_the_answer(content: bytes, secret: bytes) -> None:
    sender = X25519PrivateKey.from_private_bytes(secret)
    sealed = seal_first(content, sender, OUR_PUBLIC_KEY)
    public_key = sender.public_key().public_bytes_raw()
    assert open_first(sealed, OURS) == FirstMessage(content, agreed_key(sender, OUR_PUBLIC_KEY), public_key)
    assert open_first(sealed, OURS).key == agreed_key(OURS, public_key)
    with pytest.raises(UnreadableEnvelope):
        open_first(sealed, THEIRS)


def test_each_type_is_opened_as_what_it_is() -> None:
    with pytest.raises(UnreadableEnvelope, match="not of this type"):
        open_first(seal(b"content", KEY), OURS)
    with pytest.raises(UnreadableEnvelope, match="not of this type"):
        open_sealed(seal_first(b"content", THEIRS, OUR_PUBLIC_KEY), KEY)


def test_no_envelope_is_sealed_as_another() -> None:
    assert seal(b"content", KEY) != seal(b"content", KEY)


@given(bit=st.integers(0), first=st.booleans())
def test_one_bit_that_differs_spoils_an_envelope(bit: int, first: bool) -> None:
    sealed = seal_first(b"content", THEIRS, OUR_PUBLIC_KEY) if first else seal(b"content", KEY)
    raw = b64decode(sealed)
    # X25519 passes over the highest bit of a public key: https://www.rfc-editor.org/rfc/rfc7748#section-5
    ignored = (len(raw) - 1 - 32) * 8 + 7 if first else None
    place = bit % (len(raw) * 8)
    spoilt = b64encode((int.from_bytes(raw) ^ 1 << place).to_bytes(len(raw))).decode()
    if place == ignored:
        assert open_first(spoilt, OURS).content == b"content"
        return
    with pytest.raises(UnreadableEnvelope):
        open_first(spoilt, OURS) if first else open_sealed(spoilt, KEY)


@given(message=st.text() | st.binary(max_size=120).map(lambda raw: b64encode(raw).decode()))
def test_anything_else_is_unreadable(message: str) -> None:
    with pytest.raises(UnreadableEnvelope):
        open_sealed(message, KEY)
    with pytest.raises(UnreadableEnvelope):
        open_first(message, OURS)


def test_an_envelope_has_one_text() -> None:
    """Of its last character, two or four bits count for nothing: whoever changes them must not make another message."""
    sealed = seal(b"content.", KEY)
    assert sealed.endswith("=")
    body = sealed.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = body[:-1] + alphabet[alphabet.index(body[-1]) ^ 1] + sealed[len(body) :]
    assert b64decode(other) == b64decode(sealed)
    with pytest.raises(UnreadableEnvelope, match="not base64 as it is written"):
        open_sealed(other, KEY)


def test_a_key_of_low_order_agrees_on_nothing() -> None:
    with pytest.raises(UnreadableEnvelope, match="no key can be agreed on"):
        open_first(b64encode(b"\1" + bytes(32 + 12 + 16)).decode(), OURS)
    with pytest.raises(ValueError, match="Error computing shared key"):
        agreed_key(OURS, bytes(32))


def test_neither_content_nor_key_shows() -> None:
    assert issubclass(UnreadableEnvelope, Malformed)
    assert repr(FirstMessage(b"content", KEY, OUR_PUBLIC_KEY)) == "FirstMessage()"
