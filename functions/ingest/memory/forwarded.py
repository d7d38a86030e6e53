"""What the queue has taken lately, for a second look: a rule may have been written just before match read the index.

    changed, and the stream showed it before the envelope was sent ──▶ its message names the subscription
    changed, and the stream shows it later ──────────────────────────▶ a second message names it

The first change is looked at at once, all later ones together when the envelope's time is up: so whoever writes rules on
and on causes two looks at most. Match reads the rules of whom a message names from the tables themselves.

    the filter knows all rules that were written until some seconds later ─┐
    the lake has the envelope ─────────────────────────────────────────────┼─▶ handled
    the queue has its looks ───────────────────────────────────────────────┘

Until then it is not recorded as handled: after a crash it is forwarded again.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clarion.clock import now_ms
from ingest.delivery.outbox import Outbox
from ingest.delivery.outgoing import Outgoing, second_looks
from ingest.filter.candidates import CandidateFilter
from ingest.filter.rule_changes import RuleChanges
from ingest.turn import Turn

if TYPE_CHECKING:
    from uuid import UUID

BETWEEN_LOOKS_MS = 12_000
"""Only while the table's stream lags behind is an envelope held for longer."""


@dataclass(slots=True)
class _AwaitingLook:
    """`looked_through` numbers the last change that it was compared with. Times are in UNIX milliseconds."""

    outgoing: Outgoing
    taken_at: int
    looked_through: int
    verified: bool
    next_look_at: int = 0
    in_lake: bool = False


class Forwarded:
    """What one source showed, in the order in which the queue took it.

    It is bounded in bytes, beyond which the oldest get no second look.
    """

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        candidates: CandidateFilter,
        outbox: Outbox[Outgoing],
        is_genuine: Callable[[Outgoing], bool],
        handled: Callable[[Outgoing], None],
        patience_ms: int,
        capacity: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`patience_ms`: how long after an envelope was sent match may still be about to read the rules.

        `is_genuine` verifies the signature of what gets its first look.
        """
        self._candidates = candidates
        self._outbox = outbox
        self._is_genuine = is_genuine
        self._handled = handled
        self._patience_ms = patience_ms
        self._capacity = capacity
        self._clock = clock
        self._held: OrderedDict[UUID, _AwaitingLook] = OrderedDict()
        """By receipt."""
        self._held_bytes = 0
        self._looks_unsent: dict[UUID, Outgoing] = {}
        """What is handled but for its looks, by receipt."""
        self._looking_at: UUID | None = None
        """The receipt of what looks are being made of."""
        self._compared_through = self._compared_meanwhile = candidates.changes.count
        self._turn = Turn()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def compared_through(self) -> int:
        """The number of the last change that all that is held here was compared with."""
        return self._compared_through if self._held else self._candidates.changes.count

    def add(self, outgoing: Outgoing) -> None:
        """Hold what the queue has just taken."""
        self._compared_through = min(self.compared_through, outgoing.changes_known)
        self._compared_meanwhile = min(self._compared_meanwhile, outgoing.changes_known)
        self._held[outgoing.receipt] = _AwaitingLook(outgoing, self._clock(), outgoing.changes_known, outgoing.verified)
        self._held_bytes += outgoing.held_size
        while self._held_bytes > self._capacity:
            self._release(next(iter(self._held)))

    def recorded(self, outgoing: Outgoing) -> None:
        """Note that the lake has it."""
        if held := self._held.get(outgoing.receipt):
            held.in_lake = True
        else:
            self._finish(outgoing)

    def look_sent(self, receipt: "UUID") -> None:
        """Note that the queue has a look at what has this receipt."""
        if outgoing := self._looks_unsent.pop(receipt, None):
            self._finish(outgoing)

    async def look_again(self) -> None:
        """Send what rules have changed for since it was sent; release what no change can concern any more.

        Gives way to others, and waits while the outbox has no space.
        """
        # What becomes known while others have their turn, the next call is for.
        known_until = self._candidates.fresh_as_of - self._patience_ms
        compared_through = self._compared_meanwhile = self._candidates.changes.count
        for receipt, held in tuple(self._held.items()):
            is_last = held.taken_at <= known_until
            if is_last or held.next_look_at <= self._clock():
                await self._look_at(held)
            if is_last:
                self._release(receipt)
            elif receipt in self._held:
                compared_through = min(compared_through, held.looked_through)
            await self._give_way()
        self._compared_through = min(compared_through, self._compared_meanwhile)

    async def _look_at(self, held: _AwaitingLook) -> None:
        outgoing, changes = held.outgoing, self._candidates.changes
        if held.looked_through == changes.count:
            return
        names = changes.since(held.looked_through, outgoing.keys)
        held.looked_through = changes.count
        if not names:
            return
        held.verified = held.verified or self._is_genuine(outgoing)
        if not held.verified:
            self._release(outgoing.receipt)
            return
        held.next_look_at = self._clock() + BETWEEN_LOOKS_MS
        self._looking_at = outgoing.receipt
        for look in second_looks(outgoing, names):
            self._outbox.add(look)
            await self._outbox.wait_for_space(outgoing.source)
            await self._give_way()
        self._looking_at = None
        self.look_sent(outgoing.receipt)  # perhaps all were, and it was released meanwhile

    async def _give_way(self) -> None:
        if self._turn.is_over:
            await self._turn.give_way()

    def _release(self, receipt: "UUID") -> None:
        if held := self._held.pop(receipt, None):
            self._held_bytes -= held.outgoing.held_size
            if held.in_lake:
                self._finish(held.outgoing)

    def _finish(self, outgoing: Outgoing) -> None:
        """Its time is up, and the lake has it: it is handled once the queue has its looks, too."""
        if outgoing.receipt == self._looking_at or self._outbox.holds(outgoing.receipt):
            self._looks_unsent[outgoing.receipt] = outgoing
        else:
            self._handled(outgoing)


class SecondLooks:
    """What was forwarded of all sources, and what follows when something of it was taken."""

    def __init__(self, by_source: Mapping[int, Forwarded], changes: RuleChanges) -> None:
        self._by_source = by_source
        self._changes = changes

    def __len__(self) -> int:
        return sum(map(len, self._by_source.values()))

    def __iter__(self) -> Iterator[int]:
        """The numbers of the sources."""
        return iter(self._by_source)

    async def look_again(self, source: int) -> None:
        """See `Forwarded.look_again`."""
        await self._by_source[source].look_again()

    def forget_changes(self) -> None:
        """Let go of the changes that all that is held was compared with. To be called often, see `RuleChanges`."""
        self._changes.forget(min(forwarded.compared_through for forwarded in self._by_source.values()))

    def sent(self, outgoing: Outgoing) -> None:
        """The queue has it."""
        if outgoing.look_id or outgoing.repeat_id:
            # A repetition comes from another source than its envelope.
            for forwarded in self._by_source.values():
                forwarded.look_sent(outgoing.receipt)
        else:
            self._by_source[outgoing.source].add(outgoing)

    def recorded(self, outgoing: Outgoing) -> None:
        """The lake has it."""
        self._by_source[outgoing.source].recorded(outgoing)
