import random
from collections.abc import Callable
from typing import Any

import pytest
import sr25519
from hypothesis import given
from hypothesis import strategies as st

from clarion.networks.statements.codec import Proof, ProofKind, Statement, decode, encode
from clarion.networks.statements.signature import Keypair, sign, verify


def test_of_the_vectors_exactly_the_sr25519_signatures_that_nodes_accept_hold(vectors: dict[str, Any]) -> None:
    decodable = [vector for vector in vectors.values() if vector["expect"].get("canonical")]
    held = {vector["name"] for vector in decodable if holds(bytes.fromhex(vector["statement"][2:]))}
    expected = {v["name"] for v in decodable if v["expect"]["signature"] and v["proof_type"] == "sr25519"}
    assert held == expected
    assert len(held) > 12


def holds(raw: bytes) -> bool:
    try:
        return verify(decode(raw))
    except ValueError:
        return False


def test_a_signed_statement_verifies_after_its_journey(alice: Keypair) -> None:
    unsigned = Statement(expiry=7 << 32, topics=(bytes(32),), data=b"hello", channel=bytes(32))
    signed = sign(unsigned, alice)
    assert signed.signer == alice[0]
    assert signed._replace(proof=None) == unsigned
    assert verify(decode(encode(signed)))


def test_signing_the_same_content_again_gives_another_hash(alice: Keypair) -> None:
    statement = Statement(expiry=1, data=b"hello")
    assert sign(statement, alice).hash != sign(statement, alice).hash


def test_signing_anew_replaces_the_proof(alice: Keypair) -> None:
    bob = sr25519.pair_from_seed(b"bob".ljust(32))
    twice = sign(sign(Statement(expiry=1), bob), alice)
    assert twice.signer == alice[0]
    assert verify(twice)


def test_a_signature_holds_for_nothing_else(alice: Keypair) -> None:
    signed = sign(Statement(expiry=1, topics=(bytes(32),), data=b"hello"), alice)
    for other in (
        signed._replace(expiry=2),
        signed._replace(topics=()),
        signed._replace(topics=(b"x" * 32,)),
        signed._replace(data=b"hallo"),
        signed._replace(data=None),
        signed._replace(channel=bytes(32)),
        signed._replace(decryption_key=bytes(32)),
    ):
        assert not verify(other)


def test_every_flipped_bit_of_a_proof_breaks_it(alice: Keypair) -> None:
    raw = encode(sign(Statement(expiry=1, data=b"hello"), alice))
    for bit in range(8 * 3, 8 * 99):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not verify(decode(bytes(flipped)))


def test_no_proof_is_no_signature() -> None:
    assert not verify(Statement(expiry=1))


@pytest.mark.parametrize("kind", [ProofKind.ED25519, ProofKind.ECDSA])
def test_a_valid_proof_of_another_kind_is_not_ours_to_accept(wire: Callable[[str], bytes], kind: ProofKind) -> None:
    statement = decode(wire(f"{kind.name.lower()}-1topic-data"))
    assert statement.proof
    assert statement.proof.kind is kind
    assert not verify(statement)


def test_an_sr25519_signature_under_another_label_does_not_hold(alice: Keypair) -> None:
    signed = sign(Statement(expiry=1), alice)
    assert signed.proof
    assert not verify(signed._replace(proof=signed.proof._replace(kind=ProofKind.ED25519)))


def test_the_identity_point_signs_for_nobody() -> None:
    zeros = bytes(63) + b"\x80"
    statement = Statement(expiry=1, data=b"hello", proof=Proof(ProofKind.SR25519, zeros, bytes(32)))
    assert sr25519.verify(zeros, statement.signing_payload, bytes(32))  # the library has it hold for any message
    assert not verify(statement)


@given(signature=st.binary(max_size=70), signer=st.binary(max_size=40), data=st.binary(max_size=64))
def test_garbage_is_false_and_never_raises(signature: bytes, signer: bytes, data: bytes) -> None:
    assert verify(Statement(expiry=1, data=data, proof=Proof(ProofKind.SR25519, signature, signer))) is False


def test_random_proofs_are_false_and_never_raise(alice: Keypair) -> None:
    rng = random.Random(2026)
    for number in range(10_000):
        marked = rng.randbytes(63) + bytes([rng.randrange(0x80, 0x90)])  # past the checks of form, to the curve
        signer = alice[0] if number % 2 else rng.randbytes(32)
        assert verify(Statement(expiry=number, proof=Proof(ProofKind.SR25519, marked, signer))) is False


def test_a_statement_that_cannot_be_encoded_is_not_signed(alice: Keypair) -> None:
    assert not verify(sign(Statement(expiry=1), alice)._replace(channel=b"short"))
