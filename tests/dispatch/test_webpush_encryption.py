"""Against a browser's half of the encryption, written from RFC 8188 and RFC 8291 with another library's derivation."""

from base64 import urlsafe_b64decode

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from clarion.providers.webpush_encryption import CONTENT_BYTES, Ephemeral, encrypt

CURVE = ec.SECP256R1()
AUTH = bytes(range(16))


class Browser:
    """The receiver of pushes: its key pair and its secret."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, auth: bytes) -> None:
        self.key = key
        self.auth = auth
        self.p256dh = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def decrypt(self, body: bytes) -> bytes:
        """Any number of records, as RFC 8188 has it."""
        salt, size, key_id, records = body[:16], int.from_bytes(body[16:20]), body[21 : 21 + body[20]], body[21:]
        records = records[len(key_id) :]
        sender = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, key_id)
        shared = self.key.exchange(ec.ECDH(), sender)
        secret = HKDF(SHA256(), 32, self.auth, b"WebPush: info\0" + self.p256dh + key_id).derive(shared)
        content_key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(secret)
        base = int.from_bytes(HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(secret))
        parts = [records[start : start + size] for start in range(0, len(records), size)]
        content = b""
        for number, part in enumerate(parts):
            plain = AESGCM(content_key).decrypt((base ^ number).to_bytes(12), part, None).rstrip(b"\0")
            assert plain[-1] == (2 if number == len(parts) - 1 else 1)
            content += plain[:-1]
        return content


@pytest.fixture(scope="module")
def browser() -> Browser:
    return Browser(ec.generate_private_key(CURVE), AUTH)


def test_the_example_of_rfc_8291_comes_out_to_the_byte() -> None:
    """https://www.rfc-editor.org/rfc/rfc8291#section-5"""

    def private_key(text: str) -> ec.EllipticCurvePrivateKey:
        return ec.derive_private_key(int.from_bytes(urlsafe_b64decode(text + "=")), CURVE)

    receiver = Browser(
        private_key("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"), urlsafe_b64decode("BTBZMqHH6r4Tts7J_aSIgg==")
    )
    sender = private_key("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
    salt = urlsafe_b64decode("DGv6ra1nlYgDCS1FRnbzlw==")

    body = encrypt(
        b"When I grow up, I want to be a watermelon",
        p256dh=receiver.p256dh,
        auth=receiver.auth,
        ephemeral=Ephemeral(sender, salt),
    )

    assert body == urlsafe_b64decode(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
        "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    assert receiver.decrypt(body) == b"When I grow up, I want to be a watermelon"


@given(content=st.binary(max_size=CONTENT_BYTES), auth=st.binary(min_size=16, max_size=16))
def test_a_browser_reads_what_was_encrypted_for_it(browser: Browser, content: bytes, auth: bytes) -> None:
    receiver = Browser(browser.key, auth)

    body = encrypt(content, p256dh=receiver.p256dh, auth=auth)

    assert receiver.decrypt(body) == content
    assert len(body) == len(content) + 103


def test_the_largest_content_fills_a_body_of_4096_bytes(browser: Browser) -> None:
    content = b"x" * CONTENT_BYTES

    body = encrypt(content, p256dh=browser.p256dh, auth=browser.auth)

    assert (CONTENT_BYTES, len(body)) == (3993, 4096)
    assert browser.decrypt(body) == content


@given(size=st.integers(CONTENT_BYTES + 1, 10_000))
def test_what_is_too_large_makes_a_body_that_only_its_size_is_wrong_with(browser: Browser, size: int) -> None:
    body = encrypt(b"x" * size, p256dh=browser.p256dh, auth=browser.auth)

    assert len(body) > 4096
    assert browser.decrypt(body) == b"x" * size


def test_no_two_bodies_share_a_salt_or_a_key(browser: Browser) -> None:
    bodies = [encrypt(b"same", p256dh=browser.p256dh, auth=browser.auth) for _ in range(100)]

    assert len({body[:16] for body in bodies}) == 100
    assert len({body[21:86] for body in bodies}) == 100


@pytest.mark.parametrize("other", [Browser(ec.derive_private_key(7, CURVE), AUTH), None])
def test_nobody_else_reads_it(browser: Browser, other: Browser | None) -> None:
    """Neither with another key pair nor with another secret."""
    body = encrypt(b"secret", p256dh=browser.p256dh, auth=browser.auth)

    with pytest.raises(InvalidTag):
        (other or Browser(browser.key, bytes(16))).decrypt(body)
