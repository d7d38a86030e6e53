"""Sr25519 signatures of statements, in Substrate's signing context."""

import sr25519

from clarion.networks.statements.codec import Proof, ProofKind, Statement

type Keypair = tuple[bytes, bytes]
"""Public key (32 bytes) and secret key (64 bytes), as `sr25519.pair_from_seed` returns them."""

_IDENTITY = bytes(32)


def verify(statement: Statement) -> bool:
    """Whether the claimed signer signed the statement with Sr25519. Never raises; any other proof is False."""
    if statement.proof is None:
        return False
    kind, signature, signer = statement.proof
    # Under the identity point as public key, a signature of zeros holds for every message: it is nobody's key.
    if kind is not ProofKind.SR25519 or signer == _IDENTITY:
        return False
    try:
        valid: bool = sr25519.verify(signature, statement.signing_payload, signer)
    except ValueError:  # bytes that are no curve point, no scalar, or not marked as Sr25519
        return False
    return valid


def sign(statement: Statement, keypair: Keypair) -> Statement:
    """The same statement with a fresh proof. Sr25519 is randomised: signing twice gives two different hashes."""
    public, _ = keypair
    signature = sr25519.sign(keypair, statement.signing_payload)
    return statement._replace(proof=Proof(ProofKind.SR25519, signature, public))
