"""The ingest task: runs its parts, shares the work with other tasks, and hands over at the end."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.health import serve_health
from clarion.metrics import Metric
from clarion.networks import network
from ingest.counts import Counts, Gauges, OfNetwork, report, report_forever
from ingest.delivery.outboxes import LAKE_IN_FLIGHT, OVERSIZE_IN_FLIGHT, QUEUE_IN_FLIGHT, Outboxes
from ingest.filter.candidates import CandidateFilter
from ingest.filter.rule_feed import RuleFeed
from ingest.health import HOST
from ingest.intake import Intake
from ingest.memory.forwarded import SecondLooks
from ingest.memory.initial_replay import InitialReplay
from ingest.memory.record import Record
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.unmatched import UnmatchedBuffer
from ingest.settings import RENEWALS, FirstReplay, IngestSettings
from ingest.sharing import Sharing
from ingest.sources import FollowedSources
from ingest.sources.replays import Replays

LOOKING_SECONDS = 0.25
LEAVING_SECONDS = 10.0
"""For sources that leave in good order."""
DRAIN_SECONDS = 20.0
CONNECTING_SECONDS = 60.0
THREADS = QUEUE_IN_FLIGHT + OVERSIZE_IN_FLIGHT + LAKE_IN_FLIGHT + 8
"""For what blocks on AWS: the batches in flight, the readers of the rules, and what is saved."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Task:
    """All parts, as `ingest.wiring` has put them together. `run` until `stop` is set."""

    settings: IngestSettings
    counts: Counts
    rule_feed: RuleFeed
    candidates: CandidateFilter
    seen: SeenEnvelopes
    initial_replay: InitialReplay
    unmatched: UnmatchedBuffer
    second_looks: SecondLooks
    record: Record
    intake: Intake
    outboxes: Outboxes
    sharing: Sharing
    sources: FollowedSources
    open_sources: Callable[[], None]
    """To be called once it is known what was seen, and by when the tasks before were live."""
    opened_at: float = inf
    """When the sources were opened, as `time.monotonic` has it: the rules are read by then, and the shards divided."""

    async def run(self, stop: asyncio.Event) -> None:
        """Raise whatever must not happen: a missing table, stream or bucket, an unreadable record."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        async with await serve_health(HOST, self.settings.health_port, lambda: self.is_ready, self.status):
            await self.rule_feed.start()
            if await self.record.restore() or self.settings.first_replay is FirstReplay.HANDLE:
                self.initial_replay.skip()
            await self.sharing.renew()
            self.open_sources()
            self.opened_at = time.monotonic()
            await self._work(stop)
        report(self.settings.stage, self.counts, self.gauges())

    @property
    def is_ready(self) -> bool:
        """Whether the tasks before may end: this one knows the rules and the shards, and follows each network.

        Nodes out of reach hold that up for a minute at most, as a deployment may be what mends it.
        """
        waited = time.monotonic() - self.opened_at
        return waited > CONNECTING_SECONDS or (waited >= 0 and all(self.sources.connected_of.values()))

    def status(self) -> dict[str, object]:
        return {
            "shards": self.sharing.shards.owned,
            "connected": self.sources.connected,
            "lag_ms": self._lag_ms(),
            "held": self.outboxes.unsent,
            "standby": len(self.sharing.standby),
            "unrecorded": len(self.outboxes.unrecorded),
            "forwarded_lately": len(self.second_looks),
            "seen": self.seen.size,
            "rules_fresh_as_of": self.candidates.fresh_as_of,
        }

    async def _work(self, stop: asyncio.Event) -> None:
        settings = self.settings
        async with asyncio.TaskGroup() as tasks:
            others = [
                tasks.create_task(work)
                for work in (
                    self.sources.follow(),
                    self.sharing.take_over_forever(),
                    self.rule_feed.follow(
                        settings.stream_poll_seconds, settings.stream_idle_seconds, self._awaits_rules
                    ),
                    self.rule_feed.read_every(settings.rules_read_seconds),
                    self.initial_replay.record_forever(),
                    self._forget_changes_forever(),
                    *(self._look_again_forever(source) for source in self.second_looks),
                    self.record.forget_every(settings.forget_seconds, self._replays(), settings.absent_seconds),
                    self.record.save_every(settings.save_seconds),
                    report_forever(settings.stage, self.counts, self.gauges),
                )
            ]
            renewing = self.sharing.renew_every(settings.lease_seconds / RENEWALS)
            last = [tasks.create_task(work) for work in (renewing, self.outboxes.send_forever())]
            await stop.wait()
            for task in others:
                task.cancel()
            # What is read from whom nobody else can follow meanwhile has yet to be sent.
            await asyncio.wait(others, timeout=LEAVING_SECONDS)
            await self._drain()
            for task in last:
                task.cancel()
        await self._hand_over()

    def _awaits_rules(self) -> bool:
        """Whether a rule that comes late may still concern an envelope."""
        return bool(len(self.unmatched) or len(self.outboxes) or len(self.second_looks))

    def _replays(self) -> dict[int, list[Replays]]:
        """By their network's number."""
        return {network(name).number: replays for name, replays in self.sources.replays.items()}

    async def _look_again_forever(self, source: int) -> None:
        """By itself for each source, as it waits while the source's share of the outbox is full."""
        while True:
            await asyncio.sleep(LOOKING_SECONDS)
            await self.intake.look_again(source)
            await self.second_looks.look_again(source)

    async def _forget_changes_forever(self) -> None:
        while True:
            await asyncio.sleep(LOOKING_SECONDS)
            self.second_looks.forget_changes()

    async def _drain(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.outboxes.drain()

    async def _hand_over(self) -> None:
        """Give the lease back and save what was handled; what is still held, other tasks or a replay bring."""
        held = {"held": self.outboxes.unsent, "unrecorded": len(self.outboxes.unrecorded)}
        log.info("handing over", extra={**held, "unmatched": len(self.unmatched)})
        for step in (self.sharing.leave, self.record.save):
            try:
                await step()
            except AWS_ERRORS as error:
                log.warning("not handed over", extra={"error": describe(error)})

    def _lag_ms(self) -> int:
        return now_ms() - (self.outboxes.oldest or now_ms())

    def gauges(self) -> Gauges:
        owned = self.sharing.shards.owned
        connected = self.sources.connected_of if owned else {}
        return {
            **self.sources.gauges,
            **{OfNetwork(Metric.NODES_CONNECTED, name): count for name, count in connected.items()},
            Metric.REPLAY_REMAINING: self.sources.remaining,
            Metric.INGEST_LAG: self._lag_ms(),
            Metric.ENVELOPES_HELD: len(self.outboxes) + len(self.unmatched) + len(self.sharing.standby),
            Metric.SHARDS_OWNED: owned,
            Metric.SEEN_ENVELOPES: self.seen.size,
            Metric.KNOWN_KEYS: len(self.candidates),
            Metric.RULES_BEHIND: now_ms() - self.candidates.fresh_as_of,
        }
