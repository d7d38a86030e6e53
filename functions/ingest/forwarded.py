"""What the queue has taken lately, for a second look: a rule may have been written just before match read the index.

    changed, and the stream showed it before the statement was sent ──▶ the message names the subscription
    changed, and the stream shows it later ───────────────────────────▶ a second message names it
    the filter knows all rules that were written until some seconds later, and the lake has the statement ──▶ handled

Match reads the rules of whom a message names from the tables themselves. Until it is handled, a statement is not
recorded as such: after a crash it is forwarded again.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ingest.candidates import Candidates
from ingest.clock import now_ms
from ingest.letter import Letter, second_looks
from ingest.outbox import Outbox

if TYPE_CHECKING:
    from uuid import UUID


class Forwarded:
    """In the order in which the queue took them; bounded in bytes, beyond which the oldest get no second look."""

    def __init__(  # noqa: PLR0913 - each by name
        self,
        *,
        candidates: Candidates,
        outbox: Outbox,
        handled: Callable[[Letter], None],
        patience_ms: int,
        capacity: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        """`patience_ms`: how long after a statement was sent match may still be about to read the rules."""
        self._candidates = candidates
        self._outbox = outbox
        self._handled = handled
        self._patience_ms = patience_ms
        self._capacity = capacity
        self._clock = clock
        self._added: list[tuple[int, Letter]] = []
        """Since the last look, with the times at which they were taken."""
        self._held: deque[tuple[int, Letter]] = deque()
        self._held_bytes = 0
        self._looked_through = 0
        """The number of the last change that `_held` was compared with."""
        self._unfinished: dict[UUID, bool] = {}
        """By receipt, of all that is held: whether the lake has it."""

    def __len__(self) -> int:
        return len(self._held) + len(self._added)

    def add(self, letter: Letter) -> None:
        """Hold what the queue has just taken."""
        self._added.append((self._clock(), letter))
        self._held_bytes += letter.held_size
        self._unfinished[letter.receipt] = False

    def recorded(self, letter: Letter) -> None:
        """Note that the lake has it."""
        if letter.receipt in self._unfinished:
            self._unfinished[letter.receipt] = True
        else:
            self._handled(letter)

    def look_again(self) -> None:
        """Send what rules have changed for since it was sent; let go of what no change can concern any more."""
        changes = self._candidates.changes
        if changes.count > self._looked_through:
            for _, letter in self._held:
                self._send_looks(letter, after=self._looked_through)
            self._looked_through = changes.count
        for _, letter in self._added:
            self._send_looks(letter, after=letter.changes_known)
        self._held.extend(self._added)
        self._added.clear()
        known_until = self._candidates.fresh_as_of - self._patience_ms
        while self._held and (self._held[0][0] <= known_until or self._held_bytes > self._capacity):
            self._let_go()

    def _send_looks(self, letter: Letter, after: int) -> None:
        for look in second_looks(letter, self._candidates.changes.of(letter.pairs, after)):
            self._outbox.add(look)

    def _let_go(self) -> None:
        _, letter = self._held.popleft()
        self._held_bytes -= letter.held_size
        if self._unfinished.pop(letter.receipt):
            self._handled(letter)
