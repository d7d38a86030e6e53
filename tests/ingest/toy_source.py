"""A source of the toy network: in memory, without replays, and with commands. Its network is `tests.toy`."""

import asyncio
from collections.abc import Sequence

from clarion.clock import now_ms
from clarion.metrics import Metric
from clarion.networks import Command
from ingest.counts import OfNetwork
from ingest.downstream import Downstream
from ingest.settings import IngestSettings
from ingest.sources import NO_GAUGES, SourceFault, SourceSpec
from tests.toy import TOY

SECRET = "c2VjcmV0"
"""In the text of an error."""


class ToySource:
    """Hands on what a test puts into it, each with the time that its node showed it."""

    name = "toys"
    replays = None
    remaining = 0

    def __init__(self) -> None:
        self.connected = False
        self._shown: asyncio.Queue[bytes | Command | None] = asyncio.Queue()

    def show(self, *items: bytes | Command) -> None:
        for item in items:
            self._shown.put_nowait(item)

    def fail(self) -> None:
        """Raise what no source may."""
        self._shown.put_nowait(None)

    async def follow(self, downstream: Downstream) -> None:
        self.connected = True
        downstream.progress.replayed()
        while True:
            item = await self._shown.get()
            if item is None:
                raise KeyError(SECRET)
            try:
                if isinstance(item, Command):
                    await downstream.command(item)
                else:
                    await downstream.take([item])
            except SourceFault:
                downstream.counts[OfNetwork(Metric.NODE_FAULTS, TOY)] += 1
            downstream.progress.shown_live()
            downstream.progress.answered(now_ms())


class ToySources:
    gauges = NO_GAUGES

    def __init__(self, source: ToySource, downstream: Downstream) -> None:
        self.sources = [source]
        self._downstream = downstream

    async def follow(self) -> None:
        await self.sources[0].follow(self._downstream)


OPENED: list[ToySource] = []
"""Those that tasks follow, the latest last."""


def open_toys(_: IngestSettings, downstreams: Sequence[Downstream]) -> ToySources:
    (downstream,) = downstreams
    assert downstream.feed.network == TOY
    OPENED.append(ToySource())
    return ToySources(OPENED[-1], downstream)


SOURCE_SPEC = SourceSpec(count=lambda _: 1, open=open_toys)
