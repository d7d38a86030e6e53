"""One statement store node, followed for as long as the task runs."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from clarion.metrics import Metric
from ingest.counts import Counts
from ingest.intake import Intake
from ingest.protocol import DRAFT_ADD_FILTER, DRAFT_SUBSCRIBE, SUBSCRIBE, Answer, NodeFault, Shown, read, request

MAX_FRAME = 32 * 1024 * 1024
"""Twice what a node's largest batch takes, 4 MiB of statements in hex and their JSON, and then some."""
ANSWER_SECONDS = 20.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0

log = logging.getLogger(__name__)


class Node:
    """`connected` is whether a subscription is standing."""

    def __init__(self, url: str, intake: Intake, counts: Counts) -> None:
        self.url = url
        self.connected = False
        self._intake = intake
        self._counts = counts
        self._replayed_once = False

    async def follow(self) -> None:
        """Subscribe, again and again. Whatever the node does is logged and counted, and never raised."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with aclosing(self._subscription()) as events:
                    async for shown in events:
                        await self._intake.take(shown, first_replay=not self._replayed_once)
                        self._replayed_once |= shown.replay_done
                        pause = _FIRST_PAUSE
            except NodeFault as fault:
                self._left(str(fault))
            except (OSError, TimeoutError, WebSocketException) as error:
                self._left(type(error).__name__)
            else:
                self._left("closed")
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
            pause = min(_LONGEST_PAUSE, pause * 2)

    def _left(self, reason: str) -> None:
        self._counts[Metric.NODE_FAULTS] += 1
        log.warning("node left", extra={"node": self.url, "reason": reason})

    async def _subscription(self) -> AsyncGenerator[Shown]:
        async with connect(self.url, max_size=MAX_FRAME, compression=None) as socket:
            early = await self._subscribe(socket)
            self.connected = True
            log.info("node subscribed", extra={"node": self.url})
            try:
                for shown in early:
                    yield shown
                async for frame in socket:
                    if isinstance(said := read(frame), Shown):
                        yield said
            finally:
                self.connected = False

    async def _subscribe(self, socket: ClientConnection) -> list[Shown]:
        """Subscribe in the newest protocol that both sides speak; return what was shown before the answers."""
        early: list[Shown] = []
        offer = await _ask(socket, early, 1, "rpc_methods")
        methods = offer.get("methods") if isinstance(offer, dict) else None
        if isinstance(methods, list) and SUBSCRIBE not in methods and DRAFT_SUBSCRIBE in methods:
            subscription = await _ask(socket, early, 2, DRAFT_SUBSCRIBE)
            await _ask(socket, early, 3, DRAFT_ADD_FILTER, subscription, "any")
        else:
            await _ask(socket, early, 2, SUBSCRIBE, "any")
        return early


async def _ask(socket: ClientConnection, early: list[Shown], number: int, method: str, *params: object) -> object:
    async with asyncio.timeout(ANSWER_SECONDS):
        await socket.send(request(number, method, *params))
        while True:
            said = read(await socket.recv())
            if isinstance(said, Shown):
                early.append(said)
            elif isinstance(said, Answer) and said.id == number:
                return said.result
