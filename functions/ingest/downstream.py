"""What one source hands on what it shows to."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ingest.counts import Counts
from ingest.intake import Intake
from ingest.lease.progress import SourceProgress
from ingest.memory.initial_replay import InitialReplay, Replay
from ingest.sources import Item
from ingest.sources.feed import Feed


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """`expected` is how many envelopes a complete replay should show, as far as we know.

    `is_crowded`: whether so much is remembered that a replay should say what of it can be forgotten.
    `live_through`: when the task that led before was last live, in UNIX milliseconds; 0 if that is unknown.
    """

    feed: Feed
    progress: SourceProgress
    counts: Counts
    intake: Intake
    initial_replay: InitialReplay
    expected: int
    live_through: int
    is_crowded: Callable[[], bool]

    def begin(self, *, initial: bool, since: int) -> Replay:
        """A subscription begins, with a replay: see `InitialReplay.begin`."""
        self.feed.reset()
        return self.initial_replay.begin(initial=initial, since=since)

    async def take(self, items: Iterable[Item], replay: Replay | None = None, *, unreadable: int = 0) -> None:
        """See `Intake.take`."""
        await self.intake.take(items, self.feed, replay, unreadable=unreadable)

    def end(self, replay: Replay) -> None:
        """It has shown all that it holds."""
        self.initial_replay.complete(self.feed.number, replay)
