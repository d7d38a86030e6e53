from hashlib import sha256

import pytest
import sr25519

from clarion.signature import sign
from clarion.statement import Proof, ProofKind, Statement
from pipeline.verify import Facts, facts

KEYS = sr25519.pair_from_seed(sha256(b"alice").digest())
TOPICS = (b"a" * 32, b"b" * 32, b"a" * 32)
SIGNED = sign(Statement(7 << 32, TOPICS, b"hello"), KEYS)


def test_the_facts_of_a_true_statement_are_its_own() -> None:
    assert facts([SIGNED.encoded]) == Facts([SIGNED.hash], [KEYS[0]], [TOPICS[:2]], [7], [None])


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (SIGNED.encoded + b"!", "malformed"),
        (SIGNED._replace(data=b"forged").encoded, "bad_signature"),
        (SIGNED._replace(proof=None).encoded, "unsupported_proof"),
        (SIGNED._replace(proof=Proof(ProofKind.ED25519, bytes(64), KEYS[0])).encoded, "unsupported_proof"),
    ],
)
def test_a_flaw_is_named_as_the_live_path_names_it(raw: bytes, flaw: str) -> None:
    assert facts([SIGNED.encoded, raw]).flaw == [None, flaw]
