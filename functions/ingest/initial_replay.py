"""What the nodes hold at the first start of all is old, and is only recorded: nobody is to be woken for it.

    replayed by a node ──its replay is complete──▶ waits `grace_seconds` ──▶ recorded as handled
            │                                              │
            └───────────── shown live by any node ─────────┴──▶ handled

A node that lies could replay what has just been published. So its word hides nothing that another node shows live: for
live statements, only what is recorded is known. Statements reach all nodes within seconds, long before that.
"""

import asyncio
import time

from ingest.fingerprints import Fingerprint, Fingerprints
from ingest.seen import SHARED, Seen


class Replay:
    """One replay, which tells what is old of what it shows. An initial one declares all of it old, once it's complete.

    `since`: when its node was last live before it, in UNIX milliseconds: what is new in it has reached the node since.
    """

    def __init__(self, shown: Fingerprints | None, waiting: list[Fingerprints], since: int) -> None:
        self.shown = shown
        """None if it isn't an initial one."""
        self.since = since
        self._waiting = waiting

    def record_and_check(self, statement: Fingerprint) -> bool:
        """Record it if the replay is an initial one; return whether it is old."""
        if self.shown is not None:
            self.shown.add(statement)
            return True
        return any(statement in replayed for replayed in self._waiting)


class InitialReplay:
    """Until it is `skipped`, every node has one of its own: it is over when that node has completed a replay.

    So no node's replay decides that what another one has yet to replay is new.
    """

    def __init__(self, seen: Seen, grace_seconds: float) -> None:
        self._seen = seen
        self._grace_seconds = grace_seconds
        self._complete: asyncio.Queue[tuple[float, int, Fingerprints]] = asyncio.Queue()
        self._waiting: list[Fingerprints] = []
        self.skipped = False

    def skip(self) -> None:
        """It isn't the first start, or what the nodes hold is to be handled."""
        self.skipped = True

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be recorded."""
        return not self._waiting

    def begin(self, *, initial: bool, since: int = 0) -> Replay:
        """`initial`: the node has not come to the end of a replay before."""
        return Replay(Fingerprints() if initial and not self.skipped else None, self._waiting, since)

    def complete(self, node: int, replay: Replay) -> None:
        """Take what an initial replay of `node` has shown to be old."""
        if replay.shown:
            self._waiting.append(replay.shown)
            self._complete.put_nowait((time.monotonic() + self._grace_seconds, node, replay.shown))
        replay.shown = None

    async def record_forever(self) -> None:
        while True:
            due, node, replayed = await self._complete.get()
            await asyncio.sleep(due - time.monotonic())
            for segment in replayed.segments():
                for statement in segment:
                    self._record(statement, node)
                await asyncio.sleep(0)
            self._waiting.remove(replayed)

    def _record(self, statement: Fingerprint, node: int) -> None:
        if not self._seen.refresh(statement) and (self._seen.add(statement, SHARED) or self._seen.add(statement, node)):
            self._seen.handled(statement)
