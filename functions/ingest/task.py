"""The ingest task: wires the parts, runs them, and hands over at the end."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

from clarion.events import EventStream
from clarion.metrics import Metric, metrics_of
from clarion.tables import Rule, bind, table_name
from ingest.archive import Archive
from ingest.candidates import Candidates
from ingest.clock import now_ms
from ingest.counts import SERVICE, Counts, report, report_forever
from ingest.forwarded import Forwarded
from ingest.health import serve_health
from ingest.initial_replay import InitialReplay
from ingest.intake import Intake
from ingest.lake import Lake
from ingest.leadership import Leadership
from ingest.letter import Letter
from ingest.node import Node
from ingest.outbox import Outbox, Room, send_forever
from ingest.progress import Progress
from ingest.record import Record
from ingest.rule_feed import RuleFeed, StreamsClient
from ingest.second_look import SecondLook
from ingest.seen import Seen
from ingest.session import Patience
from ingest.settings import FirstReplay, IngestSettings
from ingest.statements_queue import StatementsQueue
from ingest.watch import Watch

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

IN_FLIGHT = 8
"""Batches on their way to SQS at once."""
QUEUE_BATCH = 10
QUEUE_LINGER_SECONDS = 0.02
LAKE_IN_FLIGHT = 2
LAKE_BATCH = 5_000
UNTOLD_SHARE = 3
"""How much more room there is for what the lake was not told than for what the queue has not taken."""
THREADS = IN_FLIGHT + LAKE_IN_FLIGHT + 8
LEASE_REQUEST_SECONDS = 1.0
LOOKING_SECONDS = 0.25
DRAIN_SECONDS = 20.0

# What queue and lake refuse is tried again here, where it shows; the SDK must not hide it.
_OUT_CONFIG = Config(
    connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 1}, max_pool_connections=IN_FLIGHT
)
_CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard"}, max_pool_connections=THREADS)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Clients:
    sqs: "SQSClient"
    s3: "S3Client"
    dynamodb: "DynamoDBClient"
    streams: StreamsClient
    firehose: "FirehoseClient"

    @classmethod
    def from_environment(cls, table_prefix: str) -> Self:
        """Make them, and bind the tables' models, of which only the lease is used here."""
        bind(table_prefix, pool=1, seconds=LEASE_REQUEST_SECONDS)
        return cls(
            boto3.client("sqs", config=_OUT_CONFIG),
            boto3.client("s3", config=_CONFIG),
            boto3.client("dynamodb", config=_CONFIG),
            boto3.client("dynamodbstreams", config=_CONFIG),
            boto3.client("firehose", config=_OUT_CONFIG),
        )


class Task:
    """`run` until `stop` is set."""

    def __init__(self, settings: IngestSettings, clients: Clients) -> None:
        self._settings = settings
        self.counts: Counts = Counter()
        self._metrics = metrics_of(SERVICE, settings.stage)
        self._candidates = Candidates()
        nodes = len(settings.node_urls)
        self._seen = Seen(settings.seen_limit, nodes)
        self._initial_replay = InitialReplay(self._seen, settings.initial_replay_seconds)
        self._second_look = SecondLook(settings.second_look_bytes, nodes)
        room_untold = Room(settings.outbox_bytes * UNTOLD_SHARE, nodes)
        self._untold = Outbox(
            to="lake",
            room=room_untold,
            most=LAKE_BATCH,
            linger=settings.lake_linger_seconds,
            gone=self._recorded,
            is_open=True,
        )
        self._outbox = Outbox(
            to="queue",
            room=Room(settings.outbox_bytes, nodes),
            next_room=room_untold,
            most=QUEUE_BATCH,
            linger=QUEUE_LINGER_SECONDS,
            gone=self._sent,
            is_open=False,
        )
        self._intake = Intake(
            seen=self._seen,
            candidates=self._candidates,
            second_look=self._second_look,
            outbox=self._outbox,
            counts=self.counts,
            patience_ms=int(settings.second_look_seconds * 1000),
        )
        self._forwarded = {number: self._make_forwarded() for number in range(1, nodes + 1)}
        """By node."""
        self._progress = Progress(
            oldest_held=self._oldest_held,
            shown_through=self._shown_through,
            kept_ms=int(settings.overlap_seconds * 1000),
        )
        self._nodes: list[Node] = []
        self._leadership = Leadership(str(uuid4()), settings.lease_seconds)
        self._lease_thread = ThreadPoolExecutor(1)
        """Of its own, so that no slow request elsewhere can cost the lease."""
        archive = Archive(clients.s3, settings.state_bucket or settings.oversize_bucket, settings.state_prefix)
        self._record = Record(self._seen, archive, self._leadership, self._knows_all)
        self._queue = StatementsQueue(clients.sqs, settings.envelopes_queue_url, clients.s3, settings.oversize_bucket)
        self._lake = Lake(EventStream(clients.firehose, settings.events_stream))
        rules = table_name(settings.table_prefix, Rule)
        self._rule_feed = RuleFeed(clients.dynamodb, clients.streams, rules, self._candidates)

    async def run(self, stop: asyncio.Event) -> None:
        """Raise whatever must not happen: a missing table, stream or bucket, an unreadable record."""
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        async with await serve_health(self._settings.health_port, self.status):
            await self._rule_feed.start()
            if await self._record.restore() or self._settings.first_replay is FirstReplay.HANDLE:
                self._initial_replay.skip()
            await self._lead_or_follow()
            self._nodes = self._make_nodes()
            await self._work(stop)
        report(self._metrics, self.counts, self._gauges())

    def status(self) -> dict[str, object]:
        return {
            "leading": self._leadership.held,
            "connected": [node.name for node in self._nodes if node.session],
            "lag_ms": self._lag_ms(),
            "held": len(self._outbox),
            "untold": len(self._untold),
            "forwarded_lately": sum(map(len, self._forwarded.values())),
            "seen": self._seen.size,
            "rules_fresh_as_of": self._candidates.fresh_as_of,
        }

    def _make_forwarded(self) -> Forwarded:
        return Forwarded(
            candidates=self._candidates,
            outbox=self._outbox,
            is_genuine=self._intake.is_genuine,
            handled=self._handled,
            patience_ms=int(self._settings.second_look_seconds * 2000),
            capacity=self._settings.second_look_bytes // len(self._settings.node_urls),
        )

    def _make_nodes(self) -> list[Node]:
        return [
            Node(
                url=url,
                number=number,
                intake=self._intake,
                progress=self._progress,
                initial_replay=self._initial_replay,
                counts=self.counts,
                expected=self._seen.size,
                patience=Patience(
                    answer=self._settings.answer_seconds,
                    replay=self._settings.replay_seconds,
                    whole_replay=self._settings.whole_replay_seconds,
                ),
                live_through=self._leadership.delivered_through,
            )
            for number, url in enumerate(self._settings.node_urls, 1)
        ]

    async def _work(self, stop: asyncio.Event) -> None:
        settings = self._settings
        watch = Watch(
            self._nodes,
            lambda: self._seen.crowded,
            window=settings.watch_seconds,
            oldest=settings.renew_seconds,
            quiet=settings.quiet_seconds,
        )
        async with asyncio.TaskGroup() as tasks:
            taking_in = [tasks.create_task(node.follow()) for node in self._nodes]
            others = [
                tasks.create_task(work)
                for work in (
                    self._rule_feed.follow(settings.stream_poll_seconds),
                    self._rule_feed.read_every(settings.rules_read_seconds),
                    self._initial_replay.record_forever(),
                    *(self._look_again_forever(node) for node in self._forwarded),
                    watch.forever(),
                    self._record.forget_every(settings.forget_seconds, self._nodes, settings.absent_seconds),
                    self._record.save_every(settings.save_seconds),
                    report_forever(self._metrics, self.counts, self._gauges),
                )
            ]
            leading = tasks.create_task(self._lead_forever())
            sending = tasks.create_task(send_forever(self._outbox, self._send, IN_FLIGHT))
            telling = tasks.create_task(send_forever(self._untold, self._lake.tell, LAKE_IN_FLIGHT))
            await stop.wait()
            for task in (*taking_in, *others):
                task.cancel()
            await self._drain()
            for task in (leading, sending, telling):
                task.cancel()
        await self._hand_over()

    async def _look_again_forever(self, node: int) -> None:
        """By itself for each node, as it waits while the node's share of the outbox is full."""
        while True:
            await asyncio.sleep(LOOKING_SECONDS)
            await self._intake.look_again(node)
            await self._forwarded[node].look_again()

    async def _lead_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_seconds / 4)
            try:
                await self._lead_or_follow()
            except PynamoDBException as error:
                log.warning("lease not renewed", extra={"error": repr(error)})

    async def _lead_or_follow(self) -> None:
        """Renew the lease or stand by for it, and open or shut the outbox accordingly. Raise pynamodb's errors."""
        try:
            loop = asyncio.get_running_loop()
            useful = bool(len(self._outbox)) or any(node.session for node in self._nodes)
            renew = partial(self._leadership.renew, self._progress.delivered_through, useful=useful)
            await loop.run_in_executor(self._lease_thread, renew)
        finally:
            leads = self._leadership.held
            if leads != self._outbox.is_open:
                log.info("leading" if leads else "standing by", extra={"tenure": self._leadership.tenure})
            self._outbox.set_open(is_open=leads)
        if not leads:
            self._let_go(min(now_ms(), self._leadership.delivered_through))

    def _let_go(self, passed_on: int) -> None:
        """What the leader has passed on is kept for a while, as long as there is room: a full one stops the reading."""
        dropped = self._outbox.drop_before(passed_on - int(self._settings.overlap_seconds * 1000))
        dropped += self._outbox.drop_before(passed_on, only_if_full=True)
        for letter in dropped:
            if not letter.look_id:
                self._handled(letter)

    def _sent(self, letter: Letter) -> None:
        if letter.look_id:
            self.counts[Metric.SECOND_LOOKS] += 1
            return
        if letter.repeat_id:
            return
        self.counts[Metric.ENVELOPES_FORWARDED] += 1
        self._untold.add(letter)
        self._forwarded[letter.node].add(letter)

    def _recorded(self, letter: Letter) -> None:
        self._forwarded[letter.node].recorded(letter)

    def _handled(self, letter: Letter) -> None:
        self._seen.handled(letter.fingerprint)

    def _send(self, batch: Sequence[Letter]) -> list[Letter]:
        """Send if this task still leads: it may have been paused since, and storing takes its time."""
        unstored = self._queue.store_oversize(batch)
        if not self._leadership.held:
            return list(batch)
        sendable = [letter for letter in batch if letter not in unstored]
        return unstored + self._queue.send(sendable) if sendable else unstored

    async def _drain(self) -> None:
        """Send what this task may, and tell the lake of all that it sent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                if self._leadership.held:
                    await self._outbox.drain()
                await self._untold.drain()

    async def _hand_over(self) -> None:
        """Save what was handled and give the lease back; what is still held, the next leader or a replay brings."""
        held = {"held": len(self._outbox), "untold": len(self._untold), "unmatched": len(self._second_look)}
        log.info("handing over", extra=held)
        try:
            await self._record.save()
            await asyncio.to_thread(self._leadership.release, self._progress.delivered_through)
        except (BotoCoreError, ClientError, PynamoDBException) as error:
            log.warning("not handed over", extra={"error": repr(error)})

    def _knows_all(self) -> bool:
        """Whether `seen` holds all that stood at the first start."""
        absent_after = self._settings.absent_seconds
        return self._initial_replay.skipped or (
            self._initial_replay.idle and all(node.replayed_once or node.absent(absent_after) for node in self._nodes)
        )

    def _oldest_held(self) -> int | None:
        return _earliest(self._outbox.oldest, self._untold.oldest, self._second_look.oldest)

    def _shown_through(self) -> int | None:
        answers = [node.shown_through for node in self._nodes if node.shown_through is not None]
        return min(answers, default=None)

    def _lag_ms(self) -> int:
        return now_ms() - (_earliest(self._outbox.oldest, self._untold.oldest) or now_ms())

    def _gauges(self) -> dict[Metric, int]:
        sessions = [node.session for node in self._nodes if node.session]
        return {
            Metric.NODES_CONNECTED: len(sessions) if self._leadership.held else 0,
            Metric.REPLAY_REMAINING: sum(session.remaining for session in sessions),
            Metric.INGEST_LAG: self._lag_ms() if self._leadership.held else 0,
            Metric.ENVELOPES_HELD: len(self._outbox) + len(self._untold) + len(self._second_look),
            Metric.LEADERS: int(self._leadership.held),
            Metric.SEEN_ENVELOPES: self._seen.size,
            Metric.KNOWN_KEYS: len(self._candidates),
            Metric.RULES_BEHIND: now_ms() - self._candidates.fresh_as_of,
        }


def _earliest(*times: int | None) -> int | None:
    return min(filter(None, times), default=None)
