"""Whether a statement may be matched at all; no AWS here."""

from typing import NamedTuple

from clarion.decisions import StatementDecision
from clarion.signature import verify
from clarion.statement import MalformedStatement, ProofKind, Statement, decode


class Verdict(NamedTuple):
    """`rejected` says why the statement goes no further; without it there is a statement with a true signature."""

    statement: Statement | None
    rejected: StatementDecision | None = None
    reason: str | None = None


def judge(raw: bytes, now: int) -> Verdict:
    """The cheap checks come first, the signature last. `now` is UNIX milliseconds."""
    try:
        statement = decode(raw)
    except MalformedStatement as flaw:
        return Verdict(None, StatementDecision.MALFORMED, str(flaw))
    if statement.expires_at * 1000 <= now:
        return Verdict(statement, StatementDecision.EXPIRED)
    if statement.proof is None or statement.proof.kind is not ProofKind.SR25519:
        return Verdict(statement, StatementDecision.UNSUPPORTED_PROOF)
    if not verify(statement):
        return Verdict(statement, StatementDecision.BAD_SIGNATURE)
    return Verdict(statement)
