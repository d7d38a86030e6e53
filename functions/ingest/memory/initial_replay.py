"""What the sources hold at the first start of all is old, and is only recorded: nobody is to be woken for it.

    replayed by a source ──its replay is complete──▶ waits `grace_seconds` ──▶ recorded as handled
            │                                              │
            └───────────── shown live by any source────────┴──▶ handled

A source that lies could replay what has just been published. So what it replays hides nothing that another one shows
live: for live envelopes, only what is recorded is known. Envelopes reach all nodes within seconds, long before that.
"""

import asyncio
import time

from ingest.filter.fingerprints import Fingerprint, Fingerprints
from ingest.memory.seen import SHARED, SeenEnvelopes


class Replay:
    """One replay, which knows what is old of what it shows. An initial one declares all of it old, once it's complete.

    `since`: when its source was last live before it, in UNIX milliseconds: what is new in it has reached the source since.
    """

    def __init__(self, shown: Fingerprints | None, waiting: list[Fingerprints], since: int) -> None:
        self.shown = shown
        """None if it isn't an initial one."""
        self.since = since
        self._waiting = waiting

    def record_and_check(self, envelope: Fingerprint) -> bool:
        """Record it if the replay is an initial one; return whether it is old."""
        if self.shown is not None:
            self.shown.add(envelope)
            return True
        return any(envelope in replayed for replayed in self._waiting)


class InitialReplay:
    """Until it is `skipped`, every source has one of its own: it is over when that source has completed a replay.

    So no source's replay decides that what another one has yet to replay is new.
    """

    def __init__(self, seen: SeenEnvelopes, grace_seconds: float) -> None:
        self._seen = seen
        self._grace_seconds = grace_seconds
        self._complete: asyncio.Queue[tuple[float, int, Fingerprints]] = asyncio.Queue()
        self._waiting: list[Fingerprints] = []
        self.skipped = False

    def skip(self) -> None:
        """It isn't the first start, or what the sources hold is to be handled."""
        self.skipped = True

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be recorded."""
        return not self._waiting

    def begin(self, *, initial: bool, since: int = 0) -> Replay:
        """`initial`: the source has not come to the end of a replay before."""
        return Replay(Fingerprints() if initial and not self.skipped else None, self._waiting, since)

    def complete(self, source: int, replay: Replay) -> None:
        """Take what an initial replay of `source` has shown to be old."""
        if replay.shown:
            self._waiting.append(replay.shown)
            self._complete.put_nowait((time.monotonic() + self._grace_seconds, source, replay.shown))
        replay.shown = None

    async def record_forever(self) -> None:
        while True:
            due, source, replayed = await self._complete.get()
            await asyncio.sleep(due - time.monotonic())
            for segment in replayed.segments():
                for envelope in segment:
                    self._record(envelope, source)
                await asyncio.sleep(0)
            self._waiting.remove(replayed)

    def _record(self, envelope: Fingerprint, source: int) -> None:
        if not self._seen.refresh(envelope) and (self._seen.add(envelope, SHARED) or self._seen.add(envelope, source)):
            self._seen.handled(envelope)
