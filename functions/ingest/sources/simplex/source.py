"""How the SMP servers of all queues are followed: bucket by bucket, each by the one task that holds its lease.

another task should have it, or this one ends: its servers are left ──▶ all that they sent is taken in ──▶ released
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import boto3

from clarion.aws import IN_TIME
from clarion.clock import now_ms
from clarion.faults import AWS_ERRORS, describe
from clarion.metrics import Metric
from clarion.networks import SIMPLEX
from clarion.networks.simplex.credentials import SigningKey, private_key
from clarion.networks.simplex.encoding import MalformedSimplex
from clarion.networks.simplex.needs import STORAGE_KEY
from clarion.networks.simplex.queues import BUCKETS, FollowedQueue, bucket_of
from clarion.networks.simplex.settings import SimplexOptions
from clarion.networks.simplex.storage_key import StorageKey, UnopenableError
from clarion.secrets import Secret, SecretError, SharedSecret
from clarion.tables import table_name
from ingest.downstream import Downstream
from ingest.faults import traces
from ingest.lease.parts import PartLeases
from ingest.settings import RENEWALS, IngestSettings
from ingest.sources import SourceSpec
from ingest.sources.following import run_together
from ingest.sources.simplex.bucket import FollowedBucket
from ingest.sources.simplex.connector import Connector
from ingest.sources.simplex.handshake import client_context
from ingest.sources.simplex.news import QueueNews
from ingest.sources.simplex.places import Places
from ingest.sources.simplex.queues import WatchedQueue
from ingest.sources.simplex.room import Room
from ingest.sources.simplex.server import ServerContext
from ingest.sources.simplex.session import OpenKey, SmpTimes, UnreadableKey
from ingest.sources.simplex.statuses import WRITERS

TIMES = SmpTimes()
SEVERAL = 3
"""Servers that have been there, of which one at least should be."""
_RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


class SmpServers:
    """All of them, as one source."""

    name = SIMPLEX
    replays = None
    remaining = 0

    def __init__(
        self,
        downstream: Downstream,
        leases: PartLeases,
        read_key: Callable[[], OpenKey],
        make_context: Callable[[OpenKey], ServerContext],
        divide_seconds: float,
    ) -> None:
        """`read_key` blocks, and raises `AWS_ERRORS` or `SecretError`. Tasks divide the buckets every `divide_seconds`."""
        self.sources = (self,)
        self._downstream = downstream
        self.leases = leases
        self._read_key = read_key
        self._make_context = make_context
        self._divide_seconds = divide_seconds
        self._context: ServerContext | None = None
        self._buckets: dict[int, FollowedBucket] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._news = QueueNews(downstream.counts, self._take, self._forget)

    @property
    def connected(self) -> bool:
        """Whether it reads its queues. Servers out of reach are as their users have chosen them, and no fault of ours."""
        fresh = self._news.fresh and all(bucket.fresh for bucket in self._buckets.values())
        return self._context is not None and fresh

    @property
    def gauges(self) -> Mapping[Metric, int]:
        servers = [server for bucket in self._buckets.values() for server in bucket.servers]
        reached = sum(server.connected for server in servers)
        # Who names servers that never were there raises no alarm.
        none_reached = not reached and sum(server.known for server in servers) >= SEVERAL
        return {
            Metric.SMP_SERVERS_REACHED: reached,
            Metric.SMP_SERVERS_UNREACHED: len(servers) - reached,
            Metric.SMP_NONE_REACHED: int(none_reached),
            Metric.SMP_QUEUES_BEYOND: sum(bucket.without_room for bucket in self._buckets.values()),
        }

    async def follow(self) -> None:
        try:
            self._context = self._make_context(await self._key())
            self._downstream.progress.replayed()
            await run_together(
                self._divide_forever(),
                self._news.follow(),
                self._news.forget_ended_forever(),
                self._context.places.make_way_forever(),
            )
        finally:
            await asyncio.gather(*map(self._hand_over, self._following.keys() | self.leases.mine))
            self._context = None

    async def _key(self) -> OpenKey:
        while True:
            try:
                return await asyncio.to_thread(self._read_key)
            except (*AWS_ERRORS, SecretError) as error:
                log.warning("storage key not read", extra={"error": describe(error)})
                await asyncio.sleep(_RETRY_SECONDS)

    async def _divide_forever(self) -> None:
        while True:
            try:
                await self._divide()
            except AWS_ERRORS as error:
                log.warning("buckets not divided", extra={"error": describe(error)})
            if self.connected:
                self._downstream.progress.answered(now_ms())
            await asyncio.sleep(self._divide_seconds)

    async def _divide(self) -> None:
        for name in self.leases.doubtful():
            await self.leases.hold(name)
        for name in self._following.keys() - self.leases.mine:
            await self._stop(name)
        await asyncio.gather(*map(self._hand_over, self.leases.surplus()))
        # One that is followed still, and was another's meanwhile, is stopped first.
        # Unlike `gather`, this waits for all of them also when it is cancelled.
        await run_together(*(self._acquire(name) for name in self.leases.due() if name not in self._following))
        for name in self.leases.mine - self._following.keys() - set(self.leases.surplus()):
            self._follow_bucket(name)

    async def _acquire(self, name: str) -> None:
        try:
            await self.leases.acquire(name)
        except AWS_ERRORS as error:
            log.warning("bucket not acquired", extra={"error": describe(error)})

    def _follow_bucket(self, name: str) -> None:
        assert self._context is not None  # noqa: S101 - `follow` has made it
        number = bucket_number(name)
        bucket = FollowedBucket(number, self._context, lambda: self.leases.hold(name), self._news.read_all_next)
        self._buckets[number] = bucket
        self._following[name] = asyncio.create_task(self._keep_following(bucket))

    async def _keep_following(self, bucket: FollowedBucket) -> None:
        while True:
            try:
                await bucket.follow()
            except Exception as error:  # noqa: BLE001 - a bug must not end what nobody else does
                self._downstream.counts[Metric.INTERNAL_ERRORS] += 1
                log.error("internal error", extra={"errors": traces(error)})  # noqa: TRY400 - its text may quote secrets
                await asyncio.sleep(_RETRY_SECONDS)

    async def _stop(self, name: str) -> None:
        """All that its servers have sent is taken in. If that is cancelled, whoever calls it again waits for it."""
        self._buckets.pop(bucket_number(name), None)
        if following := self._following.get(name):
            if not following.cancelling():
                following.cancel()
            await asyncio.wait([following])
            del self._following[name]

    async def _hand_over(self, name: str) -> None:
        await self._stop(name)
        try:
            await self.leases.release(name)
        except AWS_ERRORS as error:
            log.warning("bucket not released", extra={"error": describe(error)})

    def _take(self, queue: WatchedQueue) -> None:
        if bucket := self._buckets.get(bucket_of(queue.server)):
            bucket.take(queue)

    def _forget(self, key: bytes, ended_at: int) -> None:
        for bucket in self._buckets.values():
            bucket.forget(key, ended_at)


def bucket_number(name: str) -> int:
    return int(name.partition("/")[2])


def bucket_names() -> list[str]:
    return [f"{SIMPLEX}/{bucket}" for bucket in range(BUCKETS)]


def open_servers(settings: IngestSettings, downstreams: Sequence[Downstream]) -> SmpServers:
    """Raise `pydantic.ValidationError` without the network's options, `KeyError` without the id of its secret."""
    FollowedQueue.Meta.table_name = table_name(settings.table_prefix, FollowedQueue)
    options = SimplexOptions.model_validate(settings.options.get(SIMPLEX, {}))
    (downstream,) = downstreams
    secret_id = settings.secrets[STORAGE_KEY]
    connector = Connector(client_context(), loopback=options.allow_loopback)
    places, room = Places(), Room()
    reading, writing = asyncio.Semaphore(1), asyncio.Semaphore(WRITERS)

    def make_context(open_key: OpenKey) -> ServerContext:
        return ServerContext(
            connector=connector,
            places=places,
            room=room,
            reading=reading,
            writing=writing,
            take=downstream.take,
            open_key=open_key,
            times=TIMES,
            counts=downstream.counts,
        )

    return SmpServers(
        downstream,
        PartLeases(downstream.leases, bucket_names()),
        lambda: read_storage_key(secret_id),
        make_context,
        settings.lease_seconds / RENEWALS,
    )


def read_storage_key(secret_id: str) -> OpenKey:
    """Raise `AWS_ERRORS` or `SecretError`."""
    client = boto3.client("secretsmanager", config=IN_TIME)
    return key_opener(StorageKey.of(Secret(client, secret_id, SharedSecret).get()))


def key_opener(storage_key: StorageKey) -> OpenKey:
    def open_key(queue: WatchedQueue) -> SigningKey:
        try:
            return private_key(storage_key.open(queue.sealed_key, queue.key))
        except (UnopenableError, MalformedSimplex):
            raise UnreadableKey from None

    return open_key


SOURCE_SPEC = SourceSpec(count=lambda _: 1, open=open_servers, exclusive=True)
