"""What is done with each statement that a node shows.

shown ─┬─ known ─────────────────────────────▶ skipped, unless it proves younger, see `replayed`
├─ malformed ─────────────────────────▶ let go, and held against the node
├─ replayed at the first start ───────▶ let go, see `initial_replay`
├─ proof of another kind ─────────────▶ let go
├─ a candidate ───────────────────────▶ outbox
└─ no rule names it ──▶ second look ─┬─▶ outbox, if a rule does by then
└─▶ let go

A signature costs more than all the rest, and match verifies it anyway. So here it is only verified before a statement
takes more than its node's share of what all nodes share: room in `seen`, in the second look, in the outbox, or a place
in S3. Of all other candidates a random sample is. After a node has shown one that is forged, all its candidates are.
"""

from collections import Counter
from collections.abc import Callable
from random import random
from uuid import uuid4

from clarion.decisions import EnvelopeDecision
from clarion.metrics import Metric, decided
from clarion.networks.statements.codec import MalformedStatement, ProofKind, Statement, decode
from clarion.networks.statements.signature import verify
from ingest.candidates import Candidates
from ingest.clock import now_ms
from ingest.counts import Counts
from ingest.fingerprints import Fingerprint, of_statement
from ingest.initial_replay import Replay
from ingest.letter import MOST_NAMED, Letter, second_looks
from ingest.outbox import Outbox
from ingest.protocol import Shown
from ingest.replayed import Observation, Replayed
from ingest.second_look import SecondLook, Unmatched
from ingest.seen import SHARED, Seen
from ingest.source import Source, Turn

LARGE_BYTES = 48 * 1024
"""In base64 it takes 64 KiB, beyond which SQS bills a message more than once."""
VERIFIED_SHARE = 0.02
"""Of the candidates that nothing else has verified: enough to find a node that forges them within a second of a flood."""


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
        random: Callable[[], float] = random,
    ) -> None:
        self._seen = seen
        self._candidates = candidates
        self._second_look = second_look
        self._outbox = outbox
        self._counts = counts
        self._patience_ms = patience_ms
        self._clock = clock
        self._random = random
        self._additions: Counter[int] = Counter()
        """By node, how many additions to the filter its statements were compared with."""
        self._replayed = Replayed()
        self._forgers: set[int] = set()
        """Nodes that have shown what its sender had not signed."""

    async def take(self, shown: Shown, source: Source, replay: Replay | None = None) -> None:
        """Take in, giving way to other nodes, and wait for room for more. Raise `NodeFault`.

        `replay` is what these statements are a part of; None if they are live.
        """
        observed_at = self._clock()
        self._counts[Metric.ENVELOPES_RECEIVED] += len(shown.statements) + shown.unreadable
        if shown.unreadable:
            self._count_malformed(source, shown.unreadable)
        for statement in shown.statements:
            self._take_one(statement, observed_at, source, replay)
            await self._give_way(source.turn, source.number)
        for unmatched in self._second_look.overflow(source.number):
            self._forward_genuine(unmatched)
            await self._give_way(source.turn, source.number)

    async def look_again(self, node: int) -> None:
        """Look at what `node` showed: forward what new rules want, as `take` does, and let go of what none can.

        That is what was observed before the oldest rule that the filter may not know yet.
        """
        # What the filter learns while others have their turn, the next look is for.
        known_until = self._candidates.fresh_as_of - self._patience_ms
        turn = Turn()
        if self._candidates.additions != self._additions[node]:
            self._additions[node] = self._candidates.additions
            for unmatched in self._second_look.shown_by(node):
                if self._candidates.match_any(unmatched.pairs) and self._second_look.remove(unmatched):
                    self._forward_candidate(unmatched)
                await self._give_way(turn, node)
        for unmatched in self._second_look.due(node, known_until):
            self._let_go(unmatched.fingerprint, EnvelopeDecision.UNMATCHED)
            if turn.is_over:
                await turn.give_way()

    def is_genuine(self, letter: Letter) -> bool:
        """Whether the sender signed what was forwarded; if not, match counts it."""
        genuine = letter.verified or verify(decode(letter.statement))
        if not genuine:
            self._forgers.add(letter.node)
        return genuine

    async def _give_way(self, turn: Turn, node: int) -> None:
        """Let others have their turn when this one is over; wait while the outbox has no space for `node`."""
        if turn.is_over or self._outbox.is_full(node):
            await turn.give_way()
            await self._outbox.wait_for_space(node)

    def _take_one(self, statement: bytes, observed_at: int, source: Source, replay: Replay | None) -> None:
        source.count()
        fingerprint = of_statement(statement)
        since = replay.since if replay else None
        if self._seen.refresh(fingerprint):
            self._counts[Metric.ENVELOPES_SKIPPED] += 1
            if observation := self._replayed.show_again(fingerprint, since, observed_at):
                self._forward_again(statement, fingerprint, observation, source.number)
            return
        try:
            decoded = decode(statement)
        except MalformedStatement:
            self._count_malformed(source, 1)
            return
        if replay and replay.record_and_check(fingerprint):
            self._counts[Metric.ENVELOPES_REPLAYED] += 1
        elif decoded.proof is None or decoded.proof.kind is not ProofKind.SR25519:
            self._seen.add(fingerprint, source.number)
            self._let_go(fingerprint, EnvelopeDecision.UNSUPPORTED_PROOF)
        elif self._remember(fingerprint, decoded, source.number):
            pairs = self._candidates.pairs(decoded.proof.signer, decoded.topics)
            if since is not None:
                self._replayed.add(fingerprint, Observation(observed_at, since))
            self._sort(Unmatched(observed_at, fingerprint, pairs, statement, source.number, since))

    def _remember(self, fingerprint: Fingerprint, decoded: Statement, node: int) -> bool:
        """Whether to go on with it: beyond the node's share, only with what is genuine."""
        if not self._seen.add(fingerprint, node):
            if not self._is_genuine(decoded, node):
                return False
            self._seen.add(fingerprint, SHARED)
        return True

    def _sort(self, unmatched: Unmatched) -> None:
        if self._candidates.match_any(unmatched.pairs):
            self._forward_candidate(unmatched)
        else:
            self._second_look.add(unmatched)

    def _forward_candidate(self, candidate: Unmatched) -> None:
        if self._is_trusted(candidate):
            self._forward(candidate, verified=False)
        else:
            self._forward_genuine(candidate)

    def _is_trusted(self, candidate: Unmatched) -> bool:
        """Whether to leave the verification to match."""
        return (
            len(candidate.statement) <= LARGE_BYTES
            and candidate.node not in self._forgers
            and not self._outbox.is_crowded(candidate.node)
            and len(self._candidates.changes.of(candidate.pairs)) <= MOST_NAMED
            and self._random() >= VERIFIED_SHARE
        )

    def _is_genuine(self, decoded: Statement, node: int) -> bool:
        if verify(decoded):
            return True
        self._forgers.add(node)
        self._counts[decided(EnvelopeDecision.BAD_SIGNATURE)] += 1
        return False

    def _forward_genuine(self, unmatched: Unmatched) -> None:
        """Forward it if its sender signed it."""
        if self._is_genuine(decode(unmatched.statement), unmatched.node):
            self._forward(unmatched, verified=True)
        else:
            self._seen.handled(unmatched.fingerprint)

    def _forward(self, wanted: Unmatched, *, verified: bool) -> None:
        changes = self._candidates.changes
        names = changes.of(wanted.pairs)
        receipt, since = uuid4(), wanted.replayed_since
        if since is not None:
            since = self._replayed.forward(wanted.fingerprint, receipt, since)
        letter = Letter(
            receipt,
            wanted.observed_at,
            wanted.fingerprint,
            wanted.statement,
            replayed_since=since,
            changed=tuple(names[:MOST_NAMED]),
            pairs=wanted.pairs,
            changes_known=changes.count,
            node=wanted.node,
            verified=verified,
        )
        self._outbox.add(letter)
        for look in second_looks(letter, names[MOST_NAMED:]):
            self._outbox.add(look)

    def _forward_again(self, statement: bytes, fingerprint: Fingerprint, observation: Observation, node: int) -> None:
        """As the same observation, which is younger than its message said."""
        decoded = decode(statement)
        if observation.receipt is None or decoded.proof is None:
            return
        pairs = self._candidates.pairs(decoded.proof.signer, decoded.topics)
        letter = Letter(
            observation.receipt,
            observation.observed_at,
            fingerprint,
            statement,
            replayed_since=observation.replayed_since,
            changed=tuple(self._candidates.changes.of(pairs)[:MOST_NAMED]),
            repeat_id=uuid4(),
            node=node,
        )
        self._outbox.add(letter)

    def _let_go(self, fingerprint: Fingerprint, decision: EnvelopeDecision) -> None:
        self._counts[decided(decision)] += 1
        self._seen.handled(fingerprint)

    def _count_malformed(self, source: Source, count: int) -> None:
        self._counts[decided(EnvelopeDecision.MALFORMED)] += count
        source.count_malformed(count)
