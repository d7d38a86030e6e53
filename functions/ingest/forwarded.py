"""What the queue has taken lately, for a second look: a rule may have been written just before match read the index.

    changed, and the stream showed it before the statement was sent ──▶ the message names the subscription
    changed, and the stream shows it later ───────────────────────────▶ a second message names it
    the filter knows all rules that were written until some seconds later, and the lake has the statement ──▶ handled

The first change is looked at at once, all later ones together when the statement's time is up: so whoever writes rules
on and on causes two looks at most. Match reads the rules of whom a message names from the tables themselves. Until it
is handled, a statement is not recorded as such: after a crash it is forwarded again.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingest.candidates import Candidates
from ingest.clock import now_ms
from ingest.letter import Letter, second_looks
from ingest.outbox import Outbox
from ingest.rule_changes import REMEMBERED_MS
from ingest.source import Turn

if TYPE_CHECKING:
    from uuid import UUID

BETWEEN_LOOKS_MS = REMEMBERED_MS - 3_000
"""Only while the table's stream lags behind is a statement held for longer; then this is before a change is forgotten."""


@dataclass(slots=True)
class _Held:
    """`looked_through` numbers the last change that it was compared with. Times are in UNIX milliseconds."""

    letter: Letter
    taken_at: int
    looked_through: int
    verified: bool
    next_look_at: int = 0
    in_lake: bool = False


class Forwarded:
    """What one node showed, in the order in which the queue took it.

    It is bounded in bytes, beyond which the oldest get no second look.
    """

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        candidates: Candidates,
        outbox: Outbox,
        is_genuine: Callable[[Letter], bool],
        handled: Callable[[Letter], None],
        patience_ms: int,
        capacity: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`patience_ms`: how long after a statement was sent match may still be about to read the rules.

        `is_genuine` verifies the signature of what gets its first look.
        """
        self._candidates = candidates
        self._outbox = outbox
        self._is_genuine = is_genuine
        self._handled = handled
        self._patience_ms = patience_ms
        self._capacity = capacity
        self._clock = clock
        self._held: OrderedDict[UUID, _Held] = OrderedDict()
        """By receipt."""
        self._held_bytes = 0
        self._turn = Turn()

    def __len__(self) -> int:
        return len(self._held)

    def add(self, letter: Letter) -> None:
        """Hold what the queue has just taken."""
        self._held[letter.receipt] = _Held(letter, self._clock(), letter.changes_known, letter.verified)
        self._held_bytes += letter.held_size
        while self._held_bytes > self._capacity:
            self._release(next(iter(self._held)))

    def recorded(self, letter: Letter) -> None:
        """Note that the lake has it."""
        if held := self._held.get(letter.receipt):
            held.in_lake = True
        else:
            self._handled(letter)

    async def look_again(self) -> None:
        """Send what rules have changed for since it was sent; release what no change can concern any more.

        Gives way to others, and waits while the outbox has no space.
        """
        # What becomes known while others have their turn, the next call is for.
        known_until = self._candidates.fresh_as_of - self._patience_ms
        for receipt, held in tuple(self._held.items()):
            is_last = held.taken_at <= known_until
            if is_last or held.next_look_at <= self._clock():
                await self._look_at(held)
            if is_last:
                self._release(receipt)
            await self._give_way()

    async def _look_at(self, held: _Held) -> None:
        letter, changes = held.letter, self._candidates.changes
        if held.looked_through == changes.count:
            return
        names = changes.of(letter.pairs, held.looked_through)
        held.looked_through = changes.count
        if not names:
            return
        held.verified = held.verified or self._is_genuine(letter)
        if not held.verified:
            self._release(letter.receipt)
            return
        held.next_look_at = self._clock() + BETWEEN_LOOKS_MS
        for look in second_looks(letter, names):
            self._outbox.add(look)
            await self._outbox.wait_for_space(letter.node)
            await self._give_way()

    async def _give_way(self) -> None:
        if self._turn.is_over:
            await self._turn.give_way()

    def _release(self, receipt: "UUID") -> None:
        if held := self._held.pop(receipt, None):
            self._held_bytes -= held.letter.held_size
            if held.in_lake:
                self._handled(held.letter)
