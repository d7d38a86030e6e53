"""Which part of ingest knows which: the one place where they are put together.

sources ──▶ intake ──▶ outboxes ──▶ second looks      filter ◀── rule feed
   │          │            ▲  ▲          │
   │          ├─▶ filter   │  └──────────┤
   │          ├─▶ memory   │             └─▶ filter, memory
   │          └─▶ standby ◀┼─ sharing ──▶ leases, shards
   └─▶ progress ───────────┴─ what is held, and since when ──▶ sharing
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import boto3
from botocore.config import Config

from clarion.aws import FIREHOSE_IN_TIME
from clarion.event_log import EventWriter
from clarion.networks import network
from clarion.networks.needs import Commander
from clarion.tables import RuleRow, bind, table_name
from ingest.delivery.destinations import CommandQueues, EnvelopeQueue, LakeStream
from ingest.delivery.outbox import Budget
from ingest.delivery.outboxes import QUEUE_IN_FLIGHT, Outboxes
from ingest.delivery.outgoing import Outgoing
from ingest.downstream import Downstream
from ingest.filter.candidates import CandidateFilter
from ingest.filter.rule_feed import RuleFeed, StreamsClient
from ingest.intake import Intake
from ingest.lease.leases import Leases
from ingest.lease.progress import DeliveryProgress
from ingest.lease.shards import Shards
from ingest.memory.forwarded import Forwarded, SecondLooks
from ingest.memory.initial_replay import InitialReplay
from ingest.memory.record import Archive, Record
from ingest.memory.seen import SeenEnvelopes
from ingest.memory.standby import Standby
from ingest.memory.unmatched import UnmatchedBuffer
from ingest.settings import IngestSettings
from ingest.sharing import Sharing
from ingest.sources import FollowedNetwork, FollowedSources, SourceSpec, source_spec
from ingest.sources.feed import Feed
from ingest.task import THREADS, Task

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_firehose import FirehoseClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

    from ingest.counts import Counts

LEASE_REQUEST_SECONDS = 1.0

# What queue, S3 and lake refuse is tried again here, where it shows; the SDK must not hide it.
OUT_CONFIG = Config(
    connect_timeout=3, read_timeout=10, retries={"total_max_attempts": 1}, max_pool_connections=QUEUE_IN_FLIGHT
)
_CONFIG = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard"}, max_pool_connections=THREADS)


class NoCommandQueueError(ValueError):
    """A network has a function for its commands, but the settings name no queue of it."""


@dataclass(frozen=True, slots=True)
class AwsClients:
    sqs: "SQSClient"
    s3: "S3Client"
    oversize: "S3Client"
    """For envelopes that are too large for a message."""
    dynamodb: "DynamoDBClient"
    streams: StreamsClient
    firehose: "FirehoseClient"

    @classmethod
    def from_environment(cls, table_prefix: str) -> Self:
        """Make them, and bind the tables' models, of which only the lease is used here."""
        bind(table_prefix, pool=1, seconds=LEASE_REQUEST_SECONDS)
        return cls(
            boto3.client("sqs", config=OUT_CONFIG),
            boto3.client("s3", config=_CONFIG),
            boto3.client("s3", config=OUT_CONFIG),
            boto3.client("dynamodb", config=_CONFIG),
            boto3.client("dynamodbstreams", config=_CONFIG),
            boto3.client("firehose", config=FIREHOSE_IN_TIME),
        )


def wire(settings: IngestSettings, clients: AwsClients, leases: Leases | None = None) -> Task:
    """`leases` are a new task's by default. Raise `LookupError` for a network without sources, and `NoCommandQueueError`."""
    return _Wiring(settings, clients, leases or Leases(str(uuid4()), settings.lease_seconds)).task()


class _Wiring:
    """Each part is made once; those that are made later know those that are made before."""

    def __init__(self, settings: IngestSettings, clients: AwsClients, leases: Leases) -> None:
        self._settings = settings
        self._clients = clients
        self._specs = {name: source_spec(name) for name in settings.networks}
        self._counts: Counts = Counter()
        self._sources = FollowedSources(self._counts)
        self._leases = leases
        self._shards = Shards(leases.me)
        self._feeds = _feeds(settings, self._specs)
        count = len(self._feeds)
        self._overlap_ms = int(settings.overlap_seconds * 1000)
        self._standby = Standby(self._shards, Budget(settings.standby_bytes, count), self._overlap_ms)
        self._candidates = CandidateFilter()
        self._seen = SeenEnvelopes(settings.seen_limit, count)
        self._initial_replay = InitialReplay(self._seen, settings.initial_replay_seconds)
        self._unmatched = UnmatchedBuffer(settings.second_look_bytes, count)
        self._outboxes = self._make_outboxes(count)
        self._intake = Intake(
            shards=self._shards,
            standby=self._standby,
            seen=self._seen,
            candidates=self._candidates,
            unmatched=self._unmatched,
            outbox=self._outboxes.envelopes,
            commands=self._outboxes.commands,
            counts=self._counts,
            rule_lag_ms=int(settings.rule_lag_seconds * 1000),
        )
        self._second_looks = SecondLooks(
            {feed.number: self._make_forwarded(count) for feed in self._feeds}, self._candidates.changes
        )
        self._outboxes.report_to(self._second_looks)
        self._progress = DeliveryProgress(oldest_held=self._oldest_held, kept_ms=self._overlap_ms)

    def task(self) -> Task:
        settings, clients = self._settings, self._clients
        archive = Archive(clients.s3, settings.state_bucket or settings.oversize_bucket, settings.state_prefix)
        rules = table_name(settings.table_prefix, RuleRow)
        return Task(
            settings=settings,
            counts=self._counts,
            rule_feed=RuleFeed(clients.dynamodb, clients.streams, rules, self._candidates),
            candidates=self._candidates,
            seen=self._seen,
            initial_replay=self._initial_replay,
            unmatched=self._unmatched,
            second_looks=self._second_looks,
            record=Record(self._seen, archive, self._shards, self._knows_all),
            intake=self._intake,
            outboxes=self._outboxes,
            sharing=self._sharing(),
            sources=self._sources,
            open_sources=self._open_sources,
        )

    def _sharing(self) -> Sharing:
        return Sharing(
            leases=self._leases,
            shards=self._shards,
            standby=self._standby,
            intake=self._intake,
            seen=self._seen,
            progress=self._progress,
            networks=lambda: sum(map(bool, self._sources.connected_of.values())),
        )

    def _make_outboxes(self, sources: int) -> Outboxes:
        settings, clients = self._settings, self._clients
        return Outboxes(
            queue=EnvelopeQueue(clients.sqs, settings.envelopes_queue_url, clients.oversize, settings.oversize_bucket),
            lake=LakeStream(EventWriter(clients.firehose, clients.sqs, settings)),
            commands=CommandQueues(clients.sqs, settings.command_queues),
            command_networks=_with_commands(settings),
            capacity=settings.outbox_bytes,
            sources=sources,
            lake_linger=settings.lake_linger_seconds,
            counts=self._counts,
        )

    def _make_forwarded(self, sources: int) -> Forwarded:
        return Forwarded(
            candidates=self._candidates,
            outbox=self._outboxes.envelopes,
            is_genuine=self._intake.is_genuine,
            handled=self._handled,
            patience_ms=int(self._settings.rule_lag_seconds * 2000),
            capacity=self._settings.second_look_bytes // sources,
        )

    def _open_sources(self) -> None:
        downstreams = [
            Downstream(
                feed=feed,
                progress=self._progress.add_source(feed.network),
                counts=self._counts,
                intake=self._intake,
                initial_replay=self._initial_replay,
                expected=self._seen.count_of(network(feed.network).number),
                live_through=self._leases.all_delivered_through,
                is_crowded=lambda: self._seen.crowded,
                leases=self._leases,
            )
            for feed in self._feeds
        ]
        self._sources.open([self._follow(name, downstreams) for name in self._specs])

    def _follow(self, name: str, downstreams: Sequence[Downstream]) -> FollowedNetwork:
        own = [downstream for downstream in downstreams if downstream.feed.network == name]
        group = self._specs[name].open(self._settings, own)
        return FollowedNetwork(name, group, [downstream.progress for downstream in own])

    def _handled(self, outgoing: Outgoing) -> None:
        self._seen.handled(outgoing.fingerprint)

    def _oldest_held(self) -> int | None:
        return min(filter(None, (self._outboxes.oldest_envelope, self._unmatched.oldest)), default=None)

    def _knows_all(self) -> bool:
        """Whether `seen` holds all that stood at the first start."""
        absent_after = self._settings.absent_seconds
        return self._initial_replay.skipped or (
            self._initial_replay.idle
            and all(
                replays.any_ended or replays.absent(absent_after) for replays in chain(*self._sources.replays.values())
            )
        )


def _feeds(settings: IngestSettings, specs: dict[str, SourceSpec]) -> list[Feed]:
    """One for each source, numbered over all networks."""
    each = [(name, one) for name, one in specs.items() for _ in range(one.count(settings))]
    return [Feed(number, name, one) for number, (name, one) in enumerate(each, 1)]


def _with_commands(settings: IngestSettings) -> list[str]:
    """The networks whose sources may show commands."""
    found = [name for name in settings.networks if network(name).needs.takes_commands_of(Commander.SOURCE)]
    if missing := [name for name in found if name not in settings.command_queues]:
        raise NoCommandQueueError(f"command_queues: none for {', '.join(missing)}")
    return found
