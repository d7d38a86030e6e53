"""One connection to one node, and the subscription on it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from clarion.clock import now_ms
from ingest.sources import SourceFault
from ingest.sources.statements.protocol import (
    DRAFT_ADD_FILTER,
    DRAFT_SUBSCRIBE,
    MAX_STORE_STATEMENTS,
    SUBSCRIBE,
    Origin,
    RequestRefused,
    RpcAnswer,
    Shown,
    read,
    read_id,
    request,
)
from ingest.sources.websocket import BoundedConnection, blaming_the_node, open_connection

_MOST_EARLY = 4
"""Notifications that a node may send before it answers our requests."""
_OFFER = "rpc_methods"
_FIRST_QUESTION = 3
"""The requests of a subscription have the numbers up to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTimeouts:
    """How long to wait for a node, in seconds.

    `answer`: to a request. `asking`: between two questions how far it has shown. `replay`: between two events of a
    replay. `whole_replay`: for all of it. `settling`: the silence by which we know that an older node has ended its
    replay, since it doesn't say; it has `replay` seconds for all of it.
    """

    answer: float = 20.0
    asking: float = 3.0
    replay: float = 30.0
    whole_replay: float = 1_800.0
    settling: float = 2.0


class Session:
    """`remaining` is what the node still owes of its replay, 0 if it doesn't say; `replayed` is what it replayed.

    After the replay, the node is asked something every few seconds. Its answer comes behind whatever it had shown when
    it was asked, however far we lag behind: by then, all of that was taken in.
    """

    def __init__(
        self, socket: BoundedConnection, timeouts: NodeTimeouts, early: list[Shown], answered: Callable[[int], None]
    ) -> None:
        """`answered` is called with each new `shown_through`."""
        self._socket = socket
        self._answered = answered
        self._timeouts = timeouts
        self._early = early
        self._origin: Origin | None = None
        self._settled_by = time.monotonic() + timeouts.replay
        self._replay_by = time.monotonic() + timeouts.whole_replay
        self._question = _FIRST_QUESTION
        self._asked: tuple[float, int] | None = None
        """When the question was put that waits for its answer, as `time.monotonic` and in UNIX milliseconds."""
        self._ask_next_at = float("-inf")
        self._read_at = time.monotonic()
        self.longest_wait = 0.0
        """Seconds for which the node waited for our reading, or we for its answer: it may have dropped us meanwhile."""
        self.shown_through: int | None = None
        """UNIX milliseconds: what the node had shown by then was taken in. None before it says so."""
        self.replaying = True
        self.remaining = 0
        self.replayed = 0

    async def next(self) -> Shown:
        """Wait for the next statements. Raise `SourceFault`."""
        self._note_wait(since=self._read_at)
        with blaming_the_node(self._socket):
            while True:
                shown = self._early.pop(0) if self._early else await self._receive()
                if shown:
                    self._origin = self._origin or shown.origin
                    self._follow_replay(shown)
                    self._read_at = time.monotonic()
                    return shown

    def _note_wait(self, *, since: float) -> None:
        self.longest_wait = max(self.longest_wait, time.monotonic() - since)

    async def _receive(self) -> Shown | None:
        if self.replaying and time.monotonic() > self._replay_by:
            raise SourceFault("the replay takes too long")
        if not self.replaying and not self._asked and time.monotonic() >= self._ask_next_at:
            await self._ask()
        try:
            async with asyncio.timeout(self._wait()):
                return self._understand(await self._socket.recv(decode=False))
        except TimeoutError:
            return self._at_silence()

    async def _ask(self) -> None:
        """Any request would do; this one has been answered before."""
        self._question += 1
        self._asked = time.monotonic(), now_ms()
        await self._socket.send(request(self._question, _OFFER))

    def _understand(self, frame: bytes) -> Shown | None:
        try:
            said = read(frame)
        except RequestRefused:
            if not self._asked:
                raise
            said = RpcAnswer(self._question, None)
        if isinstance(said, Shown):
            return said
        if self._asked and said and said.id == self._question:
            (asked, self.shown_through), self._asked = self._asked, None
            self._answered(self.shown_through)
            self._note_wait(since=asked)
            self._ask_next_at = time.monotonic() + self._timeouts.asking
        return None

    def _at_silence(self) -> Shown | None:
        if not self.replaying:
            if self._asked:
                raise SourceFault("no answer")
            return None
        if self._origin is Origin.REPLAY:
            raise SourceFault("the replay stalled")
        return Shown([], Origin.UNKNOWN, replay_done=True)

    def _wait(self) -> float:
        if not self.replaying:
            until = self._asked[0] + self._timeouts.answer if self._asked else self._ask_next_at
            return until - time.monotonic()
        if self._origin is Origin.REPLAY:
            return self._timeouts.replay
        rest = self._settled_by - time.monotonic()
        return min(rest, self._timeouts.settling) if self._origin is Origin.UNKNOWN else rest

    def _follow_replay(self, shown: Shown) -> None:
        """A replay has to shrink with each of its events, and to end: a node has only so many statements."""
        if shown.origin is not Origin.LIVE:
            self.replayed += len(shown.statements) if self.replaying else 0
        if shown.remaining is not None:
            if not self.replaying or (self.remaining and shown.remaining >= self.remaining):
                raise SourceFault("the replay doesn't end")
            self.remaining = shown.remaining
        if self.replayed > MAX_STORE_STATEMENTS:
            raise SourceFault("the replay doesn't end")
        if shown.replay_done:
            self.replaying = False


@asynccontextmanager
async def subscribe(
    url: str, timeouts: NodeTimeouts, answered: Callable[[int], None] = lambda _: None
) -> AsyncIterator[Session]:
    """Subscribe to everything; for `answered` see `Session`. Raise `SourceFault`, or what is raised inside."""
    with blaming_the_node():
        socket = await open_connection(url)
    try:
        early: list[Shown] = []
        with blaming_the_node(socket):
            try:
                async with asyncio.timeout(timeouts.answer):
                    await _ask_for_everything(socket, early)
            except TimeoutError:
                raise SourceFault("no answer") from None
        yield Session(socket, timeouts, early, answered)
    finally:
        # It is closed then in any case, and an error must not take the place of a cancellation.
        with suppress(Exception):
            await socket.close()


async def _ask_for_everything(socket: BoundedConnection, early: list[Shown]) -> None:
    """In the current protocol, or in its draft successor where that is all there is."""
    methods = await _offered(socket, early)
    if SUBSCRIBE not in methods and DRAFT_SUBSCRIBE in methods:
        subscription = read_id(await _ask(socket, early, 2, DRAFT_SUBSCRIBE))
        accepted = await _ask(socket, early, 3, DRAFT_ADD_FILTER, subscription, "any")
    else:
        accepted = await _ask(socket, early, 2, SUBSCRIBE, "any")
    read_id(accepted)


async def _offered(socket: BoundedConnection, early: list[Shown]) -> list[object]:
    """Return the node's methods; none where it doesn't list them."""
    try:
        offer = await _ask(socket, early, 1, _OFFER)
    except RequestRefused:
        return []
    methods = offer.get("methods") if isinstance(offer, dict) else None
    return methods if isinstance(methods, list) else []


async def _ask(socket: BoundedConnection, early: list[Shown], number: int, method: str, *params: object) -> object:
    """Return the answer; keep in `early` what the node shows before it."""
    await socket.send(request(number, method, *params))
    while True:
        said = read(await socket.recv(decode=False))
        if isinstance(said, Shown):
            if len(early) == _MOST_EARLY:
                raise SourceFault("statements instead of an answer")
            early.append(said)
        elif isinstance(said, RpcAnswer) and said.id == number:
            return said.result
