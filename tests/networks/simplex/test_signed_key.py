import pytest
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from nacl.public import PrivateKey

from clarion.networks.simplex.credentials import dh_der
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.signed_key import sign_key, signed_key

KEY = PrivateKey(b"k" * 32).public_key
ED25519 = Ed25519PrivateKey.from_private_bytes(b"1" * 32)
ED448 = Ed448PrivateKey.from_private_bytes(b"4" * 57)
LEAVES = pytest.mark.parametrize("leaf", [ED25519, ED448], ids=["ed25519", "ed448"])


def test_a_signed_key_is_x509s_structure() -> None:
    """A sequence (0x76 bytes) of the key, the algorithm 1.3.101.112, and 64 bytes after a count of unused bits."""
    signature = ED25519.sign(dh_der(KEY)).hex()
    expected = f"3076 302a300506032b656e032100 {bytes(KEY).hex()} 300506032b6570 034100 {signature}"
    assert sign_key(KEY, ED25519) == bytes.fromhex(expected)


def test_by_ed448_it_names_ed448() -> None:
    """0xa8 bytes take a length of two."""
    signature = ED448.sign(dh_der(KEY)).hex()
    expected = f"3081a8 302a300506032b656e032100 {bytes(KEY).hex()} 300506032b6571 037300 {signature}"
    assert sign_key(KEY, ED448) == bytes.fromhex(expected)


@LEAVES
def test_the_key_is_read_by_whom_the_leaf_is_known(leaf: Ed25519PrivateKey | Ed448PrivateKey) -> None:
    assert signed_key(sign_key(KEY, leaf), leaf.public_key()) == KEY


@LEAVES
@given(at=st.integers(0, 400), bit=st.integers(0, 7))
def test_no_bit_of_it_may_change(leaf: Ed25519PrivateKey | Ed448PrivateKey, at: int, bit: int) -> None:
    signed = bytearray(sign_key(KEY, leaf))
    signed[at % len(signed)] ^= 1 << bit
    with pytest.raises(MalformedSimplex):
        signed_key(bytes(signed), leaf.public_key())


def test_another_leaf_has_not_signed_it() -> None:
    for leaf in (ED448, Ed25519PrivateKey.generate()):
        with pytest.raises(MalformedSimplex):
            signed_key(sign_key(KEY, leaf), ED25519.public_key())


@given(raw=st.binary(max_size=200))
def test_anything_else_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedSimplex):
        signed_key(raw, ED25519.public_key())
