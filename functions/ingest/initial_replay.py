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

    `since`: when any node was last live before it, in UNIX milliseconds: what is new in it has appeared since then.
    """

    def __init__(self, shown: Fingerprints | None, waiting: list[Fingerprints], since: int) -> None:
        self.shown = shown
        """None if it isn't an initial one."""
        self.since = since
        self._waiting = waiting

    def is_old(self, statement: Fingerprint) -> bool:
        if self.shown is not None:
            self.shown.add(statement)
            return True
        return any(statement in replayed for replayed in self._waiting)


class InitialReplay:
    """`over`: what is replayed from now on is new if it isn't known. `recorded`: one complete replay is in `seen`."""

    def __init__(self, seen: Seen, grace_seconds: float) -> None:
        self._seen = seen
        self._grace_seconds = grace_seconds
        self._complete: asyncio.Queue[tuple[float, int, Fingerprints]] = asyncio.Queue()
        self._waiting: list[Fingerprints] = []
        self.over = False
        self.recorded = False

    def skip(self) -> None:
        """It isn't the first start, or what the nodes hold is to be handled."""
        self.over = self.recorded = True

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be recorded."""
        return not self._waiting

    def begin(self, *, initial: bool, since: int = 0) -> Replay:
        """`initial`: the node has not come to the end of a replay before."""
        return Replay(Fingerprints() if initial and not self.over else None, self._waiting, since)

    def complete(self, node: int, replay: Replay) -> None:
        """Take what an initial replay of `node` has shown to be old. An empty one says nothing of what others hold."""
        if replay.shown:
            self.over = True
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
            self.recorded = True

    def _record(self, statement: Fingerprint, node: int) -> None:
        if not self._seen.refresh(statement) and (self._seen.add(statement, SHARED) or self._seen.add(statement, node)):
            self._seen.handled(statement)
