"""The proofs that a node accepts. Clarion itself pushes for Sr25519 only, which is why this lives here."""

from hashlib import blake2b

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from cryptography.hazmat.primitives.hashes import SHA256

from clarion.networks.statements import signature
from clarion.networks.statements.codec import Proof, ProofKind, Statement

_DIGEST_OF_32_BYTES = utils.Prehashed(SHA256())  # the library asks which hash it was, to check the length


def proves(statement: Statement) -> bool:
    """Whether the statement's signer signed it, with any of the three kinds of key."""
    match statement.proof:
        case Proof(kind=ProofKind.SR25519):
            return signature.verify(statement)
        case Proof(kind=ProofKind.ED25519) as proof:
            return _ed25519(proof, statement.signing_payload)
        case Proof(kind=ProofKind.ECDSA) as proof:
            return _ecdsa(proof, statement.signing_payload)
    return False


def _ed25519(proof: Proof, message: bytes) -> bool:
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(proof.signer).verify(proof.signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _ecdsa(proof: Proof, message: bytes) -> bool:
    """`proof.signature` is r, s and a recovery byte, over the message's BLAKE2b-256."""
    r, s = int.from_bytes(proof.signature[:32]), int.from_bytes(proof.signature[32:64])
    try:
        signer = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), proof.signer)
        digest = blake2b(message, digest_size=32).digest()
        signer.verify(utils.encode_dss_signature(r, s), digest, ec.ECDSA(_DIGEST_OF_32_BYTES))
    except (InvalidSignature, ValueError):
        return False
    return True
