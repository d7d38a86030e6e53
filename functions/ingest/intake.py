"""What is done with each envelope that a source shows.

    shown ─┬─ known ─────────────────────────────▶ skipped, unless it proves younger, see `replayed`
           ├─ another task's ────────────────────▶ standby ──▶ taken in, if its shard becomes ours
           ├─ malformed ─────────────────────────▶ let go, and held against the source
           ├─ its node's time is wrong ──────────▶ let go, and not remembered
           ├─ replayed at the first start ───────▶ let go, see `initial_replay`
           ├─ screened out by its source ────────▶ let go
           ├─ shown to this task alone ──────────▶ outbox, whosever shard it is of
           ├─ a candidate ───────────────────────▶ outbox
           └─ no rule names it ──▶ unmatched ─┬──▶ outbox, if a rule does by then, or without space if it is genuine
                                              └──▶ let go
    a command ───────────────────────────────────▶ outbox of its network's commands, or standby

A signature costs more than all the rest, and match verifies it anyway. So here it is only verified before an envelope
takes more than its source's share of what all sources share: space among the seen and the unmatched, in the outbox, or
in S3. Of all other candidates a random sample is. After a source has shown one that is forged, all its candidates are.

Where a network signs nothing, nothing shows what a source has made up. So beyond the source's share, its envelopes are
not remembered, and let go if no rule names them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import random
from types import MappingProxyType
from uuid import UUID, uuid4

from clarion.clock import now_ms
from clarion.decisions import EnvelopeDecision
from clarion.metrics import Metric, decided
from clarion.networks import Command, Envelope, Malformed, network
from ingest.counts import Counts
from ingest.delivery.outbox import BATCH_BYTES, Outbox
from ingest.delivery.outgoing import MOST_NAMED, Outgoing, OutgoingCommand, second_looks
from ingest.filter.candidates import CandidateFilter
from ingest.filter.fingerprints import Fingerprint, of_envelope, of_key
from ingest.lease.shards import Shards
from ingest.memory.initial_replay import Replay
from ingest.memory.replayed import Observation, Replayed
from ingest.memory.seen import SHARED, SeenEnvelopes
from ingest.memory.standby import Held, ReceivedEnvelope, Reception, Standby
from ingest.memory.unmatched import Arrival, UnmatchedBuffer
from ingest.reader import EnvelopeReader
from ingest.sources import SourceFault
from ingest.sources.feed import Feed
from ingest.turn import Turn

LARGE_BYTES = 48 * 1024
"""In base64 it takes 64 KiB, beyond which SQS bills a message more than once."""
VERIFIED_SHARE = 0.02
"""Of the candidates that nothing else has verified: enough to find a source that forges them within a second of a flood."""


class Intake:
    """Takes in what all sources show. `rule_lag_ms`: how long a rule may take from its writing into the filter."""

    def __init__(  # noqa: PLR0913 - it is where everything meets
        self,
        *,
        shards: Shards,
        standby: Standby,
        seen: SeenEnvelopes,
        candidates: CandidateFilter,
        unmatched: UnmatchedBuffer,
        outbox: Outbox[Outgoing],
        commands: Mapping[str, Outbox[OutgoingCommand]] = MappingProxyType({}),
        counts: Counts,
        rule_lag_ms: int,
        clock: Callable[[], int] = now_ms,
        random: Callable[[], float] = random,
    ) -> None:
        """`commands` are the outboxes of networks with a function of their own, by network."""
        self._shards = shards
        self._standby = standby
        self._seen = seen
        self._candidates = candidates
        self._unmatched = unmatched
        self._outbox = outbox
        self._commands = commands
        self._counts = counts
        self._reader = EnvelopeReader(counts)
        self._rule_lag_ms = rule_lag_ms
        self._clock = clock
        self._random = random
        self._additions: Counter[int] = Counter()
        """By source, how many additions to the filter its envelopes were compared with."""
        self._replayed = Replayed()
        self._forgers: set[int] = set()
        """Sources that have shown what its sender had not signed."""

    async def take(
        self, raws: Sequence[bytes], feed: Feed, replay: Replay | None = None, *, unreadable: int = 0
    ) -> None:
        """Take in, giving way to other sources, and wait for space for more. Raise `SourceFault`.

        `replay` is what these envelopes are a part of; None if they are live. `unreadable` counts what was shown beside
        them and isn't even bytes.
        """
        reception = Reception(feed, self._clock(), replay)
        self._counts[Metric.ENVELOPES_RECEIVED] += len(raws) + unreadable
        if unreadable:
            self._count_malformed(feed, unreadable)
        take_all = self._take_unrepeated if feed.exclusive else self._take_by_turns
        await take_all(raws, reception)
        while arrival := self._unmatched.take_overflow(feed.number):
            if network(arrival.network).signed:
                self._forward_genuine(arrival)
            else:
                self._let_go(arrival.fingerprint, EnvelopeDecision.UNMATCHED)
            await self._give_way(feed.turn, feed.number)

    async def _take_by_turns(self, raws: Sequence[bytes], reception: Reception) -> None:
        feed = reception.feed
        for raw in raws:
            self._take_one(raw, reception)
            if feed.turn.is_over or self._outbox.is_full(feed.number):  # seldom: an await each time would cost more
                await self._give_way(feed.turn, feed.number)

    async def _take_unrepeated(self, raws: Sequence[bytes], reception: Reception) -> None:
        """What nobody shows again is taken in even if it is told to end while it waits for space."""
        feed = reception.feed
        try:
            await self._give_way(feed.turn, feed.number)
        finally:
            for raw in raws:
                self._take_one(raw, reception)
        await self._give_way(feed.turn, feed.number)

    async def command(self, command: Command, feed: Feed, taken: Callable[[], None] | None = None) -> None:
        """Pass it on to its network's function, and wait for space for more. Raise `SourceFault` if it is too large.

        `taken` is called when the queue has it. A source that waits for that may have shown it to this task alone, so it is
        left to no other.
        """
        outbox = self._commands[command.network]
        outgoing = OutgoingCommand(command=command, observed_at=self._clock(), source=feed.number)
        if outgoing.wire_size > BATCH_BYTES:
            raise SourceFault("a command that no message can hold")
        if taken is not None:
            outbox.add(replace(outgoing, taken=taken))
        elif self._shards.owns(outgoing.fingerprint) or not self._standby.hold(outgoing):
            outbox.add(outgoing)
        await outbox.wait_for_space(feed.number)

    async def look_again(self, source: int) -> None:
        """Look at what `source` showed: forward what new rules want, as `take` does, and let go of what none can.

        That is what was observed before the oldest rule that the filter may not know yet.
        """
        # What the filter learns while others have their turn, the next look is for.
        known_until = self._candidates.fresh_as_of - self._rule_lag_ms
        turn = Turn()
        if self._candidates.additions != self._additions[source]:
            self._additions[source] = self._candidates.additions
            for arrival in self._unmatched.shown_by(source):
                if self._candidates.match_any(arrival.keys) and self._unmatched.remove(arrival):
                    self._forward_candidate(arrival)
                await self._give_way(turn, source)
        for arrival in self._unmatched.due(source, known_until):
            self._let_go(arrival.fingerprint, EnvelopeDecision.UNMATCHED)
            if turn.is_over:
                await turn.give_way()

    def take_held(self, held: Held) -> None:
        """Take in what was left to another task."""
        if isinstance(held, OutgoingCommand):
            self._commands[held.command.network].add(held)
        elif not self._seen.refresh(held.fingerprint):
            self._take_received(held)

    def is_genuine(self, outgoing: Outgoing) -> bool:
        """Whether what was forwarded is what it claims to be; if not, match counts it."""
        if outgoing.verified:
            return True
        envelope = self._reader.decode(outgoing.network, outgoing.raw)
        return envelope is not None and self._refusal(envelope, outgoing.source) is None

    async def _give_way(self, turn: Turn, source: int) -> None:
        """Let others have their turn when this one is over; wait while the outbox has no space for `source`."""
        if turn.is_over or self._outbox.is_full(source):
            await turn.give_way()
            await self._outbox.wait_for_space(source)

    def _take_one(self, raw: bytes, reception: Reception) -> None:
        feed = reception.feed
        feed.count()
        fingerprint = of_envelope(feed.identify(raw), feed.network_number) if feed.identify else None
        if fingerprint is not None and self._pass_by(fingerprint, raw, reception):
            return
        try:
            envelope = self._reader.decode(feed.network, raw)
        except Malformed:
            self._count_malformed(feed, 1)
            return
        if envelope is None:
            return
        if fingerprint is None:
            fingerprint = of_envelope(envelope.id, feed.network_number)
            if self._pass_by(fingerprint, raw, reception):
                return
        self._take_new(envelope, fingerprint, raw, reception)

    def _pass_by(self, fingerprint: Fingerprint, raw: bytes, reception: Reception) -> bool:
        """Whether it is known, or left to another task."""
        if self._seen.refresh(fingerprint):
            self._skip(fingerprint, raw, reception)
            return True
        if reception.feed.exclusive or self._shards.owns(fingerprint):
            return False
        if self._standby.show_again(fingerprint, reception):
            self._counts[Metric.ENVELOPES_SKIPPED] += 1
            return True
        if reception.replay and reception.replay.record_and_check(fingerprint):
            self._counts[Metric.ENVELOPES_REPLAYED] += 1
            return True
        return self._standby.hold(ReceivedEnvelope(fingerprint, raw, reception))

    def _take_received(self, received: ReceivedEnvelope) -> None:
        """What is malformed is not held against its source: its subscription may be another by now."""
        fingerprint, raw, reception = received
        try:
            envelope = self._reader.decode(reception.feed.network, raw)
        except Malformed:
            self._counts[decided(EnvelopeDecision.MALFORMED)] += 1
            return
        if envelope is not None:
            self._take_new(envelope, fingerprint, raw, reception)

    def _take_new(self, envelope: Envelope, fingerprint: Fingerprint, raw: bytes, reception: Reception) -> None:
        feed, observed_at, replay = reception
        if feed.is_timely and not feed.is_timely(envelope, observed_at):
            self._counts[Metric.ENVELOPES_MISTIMED] += 1
        elif replay and replay.record_and_check(fingerprint):
            self._counts[Metric.ENVELOPES_REPLAYED] += 1
        elif feed.screen and (refusal := feed.screen(envelope)):
            self._seen.add(fingerprint, feed.number)
            self._let_go(fingerprint, refusal)
        elif self._remember(fingerprint, envelope, feed.number):
            since = replay.since if replay else None
            if since is not None:
                self._replayed.add(fingerprint, Observation(observed_at, since))
            keys = [of_key(key) for key in envelope.keys]
            arrival = Arrival(observed_at, fingerprint, keys, feed.network, raw, feed.number, since)
            if feed.exclusive:
                self._forward_candidate(arrival)
            else:
                self._sort(arrival)

    def _remember(self, fingerprint: Fingerprint, envelope: Envelope, source: int) -> bool:
        """Whether to go on with it: beyond the source's share, only with what is genuine, as far as that can be known."""
        if not self._seen.add(fingerprint, source) and network(envelope.network).signed:
            if not self._verify(envelope, source):
                return False
            self._seen.add(fingerprint, SHARED)
        return True

    def _sort(self, arrival: Arrival) -> None:
        if self._candidates.match_any(arrival.keys):
            self._forward_candidate(arrival)
        else:
            self._unmatched.add(arrival)

    def _forward_candidate(self, arrival: Arrival) -> None:
        if self._is_trusted(arrival):
            self._forward(arrival, verified=False)
        else:
            self._forward_genuine(arrival)

    def _is_trusted(self, arrival: Arrival) -> bool:
        """Whether to leave the verification to match."""
        return (
            len(arrival.raw) <= LARGE_BYTES
            and arrival.source not in self._forgers
            and not self._outbox.is_crowded(arrival.source)
            and len(self._candidates.changes.lately(arrival.keys)) <= MOST_NAMED
            and self._random() >= VERIFIED_SHARE
        )

    def _verify(self, envelope: Envelope, source: int) -> bool:
        refusal = self._refusal(envelope, source)
        if refusal is None:
            return True
        self._counts[decided(refusal)] += 1
        return False

    def _refusal(self, envelope: Envelope, source: int) -> EnvelopeDecision | None:
        refusal = self._reader.verify(envelope)
        if refusal not in {None, EnvelopeDecision.MALFORMED}:
            self._forgers.add(source)
        return refusal

    def _forward_genuine(self, arrival: Arrival) -> None:
        """Forward it if it is what it claims to be."""
        envelope = self._reader.decode(arrival.network, arrival.raw)
        if envelope is not None and self._verify(envelope, arrival.source):
            self._forward(arrival, verified=True)
        else:
            self._seen.handled(arrival.fingerprint)

    def _forward(self, arrival: Arrival, *, verified: bool) -> None:
        receipt = uuid4()
        if arrival.replayed_since is not None:
            since = self._replayed.forward(arrival.fingerprint, receipt, arrival.replayed_since)
            arrival = arrival._replace(replayed_since=since)
        names = self._candidates.changes.lately(arrival.keys)
        outgoing = self._outgoing(arrival, receipt, names, verified=verified)
        self._outbox.add(outgoing)
        for look in second_looks(outgoing, names[MOST_NAMED:]):
            self._outbox.add(look)

    def _skip(self, fingerprint: Fingerprint, raw: bytes, reception: Reception) -> None:
        """It is known. Forward it again if it proves to be younger than its message said."""
        feed, observed_at, replay = reception
        self._counts[Metric.ENVELOPES_SKIPPED] += 1
        if observation := self._replayed.show_again(fingerprint, replay.since if replay else None, observed_at):
            self._repeat(fingerprint, raw, observation, feed)

    def _repeat(self, fingerprint: Fingerprint, raw: bytes, observation: Observation, feed: Feed) -> None:
        """Forward it as the same observation, with the time since which it is known now."""
        if observation.receipt is None or (envelope := self._reader.decode(feed.network, raw)) is None:
            return
        keys = [of_key(key) for key in envelope.keys]
        observed_at, since = observation.observed_at, observation.replayed_since
        arrival = Arrival(observed_at, fingerprint, keys, feed.network, raw, feed.number, since)
        names = self._candidates.changes.lately(keys)
        self._outbox.add(self._outgoing(arrival, observation.receipt, names, repeat_id=uuid4()))

    def _outgoing(
        self,
        arrival: Arrival,
        receipt: UUID,
        names: Sequence[str],
        *,
        verified: bool = False,
        repeat_id: UUID | None = None,
    ) -> Outgoing:
        """Of `names`, it holds as many as one message may name."""
        return Outgoing(
            network=arrival.network,
            receipt=receipt,
            observed_at=arrival.observed_at,
            fingerprint=arrival.fingerprint,
            raw=arrival.raw,
            replayed_since=arrival.replayed_since,
            names=tuple(names[:MOST_NAMED]),
            repeat_id=repeat_id,
            keys=arrival.keys,
            changes_known=self._candidates.changes.count,
            source=arrival.source,
            verified=verified,
        )

    def _let_go(self, fingerprint: Fingerprint, decision: EnvelopeDecision) -> None:
        self._counts[decided(decision)] += 1
        self._seen.handled(fingerprint)

    def _count_malformed(self, feed: Feed, count: int) -> None:
        self._counts[decided(EnvelopeDecision.MALFORMED)] += count
        feed.count_malformed(count)
