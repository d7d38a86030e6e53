"""Whether a statement may be matched at all; no AWS here."""

from typing import NamedTuple

from clarion.decisions import EnvelopeDecision
from clarion.networks.statements.codec import MalformedStatement, ProofKind, Statement, decode
from clarion.networks.statements.signature import verify


class Verified(NamedTuple):
    """A statement that `sender` did sign, and its hash."""

    statement: Statement
    hash: bytes
    sender: bytes


class Rejected(NamedTuple):
    """A statement that goes no further; without one if it could not be decoded."""

    decision: EnvelopeDecision
    reason: str | None = None
    statement: Statement | None = None


def judge(raw: bytes, now: int) -> Verified | Rejected:
    """The cheap checks come first, the signature last. `now` is UNIX milliseconds."""
    try:
        statement = decode(raw)
    except MalformedStatement as flaw:
        return Rejected(EnvelopeDecision.MALFORMED, str(flaw))
    proof = statement.proof
    if statement.expires_at * 1000 <= now:
        return Rejected(EnvelopeDecision.EXPIRED, statement=statement)
    if proof is None or proof.kind is not ProofKind.SR25519:
        return Rejected(EnvelopeDecision.UNSUPPORTED_PROOF, statement=statement)
    if not verify(statement):
        return Rejected(EnvelopeDecision.BAD_SIGNATURE, statement=statement)
    return Verified(statement, statement.hash, proof.signer)
