"""What one source hands on what it shows to."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clarion.networks import Command
from ingest.counts import Counts
from ingest.intake import Intake
from ingest.lease.leases import Leases
from ingest.lease.progress import SourceProgress
from ingest.memory.initial_replay import InitialReplay, Replay
from ingest.sources.feed import Feed


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """`expected` is how many envelopes of its network a complete replay should show, as far as we know.

    `is_crowded`: whether so much is remembered that a replay should say what of it can be forgotten. `leases`: the tasks at
    work, for a source that divides its own work among them.
    `live_through`: when the tasks that were at work before were last live, in UNIX milliseconds; 0 if that is unknown.
    """

    feed: Feed
    progress: SourceProgress
    counts: Counts
    intake: Intake
    initial_replay: InitialReplay
    expected: int
    live_through: int
    is_crowded: Callable[[], bool]
    leases: Leases

    def begin(self, *, initial: bool, since: int) -> Replay:
        """A subscription begins, with a replay: see `InitialReplay.begin`."""
        self.feed.reset()
        return self.initial_replay.begin(initial=initial, since=since)

    async def take(self, raws: Sequence[bytes], replay: Replay | None = None, *, unreadable: int = 0) -> None:
        """The source shows envelopes: see `Intake.take`."""
        await self.intake.take(raws, self.feed, replay, unreadable=unreadable)

    async def command(self, command: Command, taken: Callable[[], None] | None = None) -> None:
        """The source has an order for its network's function: see `Intake.command`."""
        await self.intake.command(command, self.feed, taken)

    def end(self, replay: Replay) -> None:
        """It has shown all that it holds."""
        self.initial_replay.complete(self.feed.number, replay)
