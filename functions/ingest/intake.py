"""What is done with each statement that a node shows.

shown ─┬─ known ─────────────────────────────▶ skipped
├─ standing at the first start ───────▶ recorded
├─ malformed, or proof of another kind ▶ let go
├─ a candidate ────────────────────────▶ outbox
└─ no rule names it ──▶ second look ─┬─▶ outbox, if a rule does by then
└─▶ let go
"""

from collections.abc import Callable
from uuid import uuid4

from clarion.decisions import StatementDecision
from clarion.metrics import Metric, decided
from clarion.statement import MalformedStatement, ProofKind, decode
from ingest.candidates import Candidates
from ingest.clock import now_ms
from ingest.counts import Counts
from ingest.fingerprints import Fingerprint, of_statement
from ingest.letter import MOST_NAMED, Letter, second_looks
from ingest.outbox import Outbox
from ingest.protocol import Shown
from ingest.second_look import SecondLook, Unmatched
from ingest.seen import Seen


class Intake:
    """Takes in what all nodes show. `patience_ms`: how long a rule may take from its writing into the filter."""

    def __init__(  # noqa: PLR0913 - it is where everything meets
        self,
        *,
        seen: Seen,
        candidates: Candidates,
        second_look: SecondLook,
        outbox: Outbox,
        counts: Counts,
        patience_ms: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._seen = seen
        self._candidates = candidates
        self._second_look = second_look
        self._outbox = outbox
        self._counts = counts
        self._patience_ms = patience_ms
        self._clock = clock
        self._additions = 0

    async def take(self, shown: Shown, *, standing: bool, replayed_since: int | None = None) -> None:
        """Take in, then wait until there is room for more."""
        self.take_now(shown, standing=standing, replayed_since=replayed_since)
        await self._outbox.settle()

    def take_now(self, shown: Shown, *, standing: bool, replayed_since: int | None = None) -> None:
        """`standing`: these stood in the store before the first start of all, and are only recorded.

        `replayed_since`: they are replayed, and none of them had appeared before; UNIX milliseconds.
        """
        observed_at = self._clock()
        for statement in shown.statements:
            fingerprint = of_statement(statement)
            if not self._seen.add(fingerprint):
                self._counts[Metric.STATEMENTS_SKIPPED] += 1
            elif standing:
                self._counts[Metric.STATEMENTS_REPLAYED] += 1
                self._seen.handled(fingerprint)
            else:
                self._sort(fingerprint, statement, observed_at, replayed_since)
        self._counts[Metric.STATEMENTS_RECEIVED] += len(shown.statements) + shown.unreadable
        if shown.unreadable:
            self._counts[decided(StatementDecision.MALFORMED)] += shown.unreadable

    def look_again(self) -> None:
        """Forward what new rules want; let go of statements once the filter knows every rule that is older."""
        if self._candidates.additions != self._additions:
            self._additions = self._candidates.additions
            for unmatched in self._second_look.wanted(lambda one: self._candidates.match_any(one.pairs)):
                self._forward(unmatched)
        for unmatched in self._second_look.due(self._candidates.fresh_as_of - self._patience_ms):
            self._let_go(unmatched.fingerprint, StatementDecision.UNMATCHED)
        for unmatched in self._second_look.overflow():
            self._forward(unmatched)

    def _sort(self, fingerprint: Fingerprint, statement: bytes, observed_at: int, replayed_since: int | None) -> None:
        try:
            decoded = decode(statement)
        except MalformedStatement:
            self._let_go(fingerprint, StatementDecision.MALFORMED)
            return
        if decoded.proof is None or decoded.proof.kind is not ProofKind.SR25519:
            self._let_go(fingerprint, StatementDecision.UNSUPPORTED_PROOF)
            return
        pairs = self._candidates.pairs(decoded.proof.signer, decoded.topics)
        unmatched = Unmatched(observed_at, fingerprint, pairs, statement, replayed_since)
        if self._candidates.match_any(pairs):
            self._forward(unmatched)
        else:
            self._second_look.add(unmatched)

    def _forward(self, wanted: Unmatched) -> None:
        changes = self._candidates.changes
        names = changes.of(wanted.pairs)
        letter = Letter(
            uuid4(),
            wanted.observed_at,
            wanted.fingerprint,
            wanted.statement,
            replayed_since=wanted.replayed_since,
            changed=tuple(names[:MOST_NAMED]),
            pairs=wanted.pairs,
            changes_known=changes.count,
        )
        self._outbox.add(letter)
        for look in second_looks(letter, names[MOST_NAMED:]):
            self._outbox.add(look)

    def _let_go(self, fingerprint: Fingerprint, decision: StatementDecision) -> None:
        self._counts[decided(decision)] += 1
        self._seen.handled(fingerprint)
