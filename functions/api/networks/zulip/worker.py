"""What an instance of Zulip's router keeps, and the call that it answers."""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Self
from uuid import UUID

import boto3
from pynamodb.models import Model

from api.networks.zulip.bouncer_keys import KeyRing
from api.networks.zulip.device_quota import DeviceQuota
from api.networks.zulip.settings import ZulipSettings
from api.worker import QUEUE_IN_TIME, TABLE_SECONDS, Worker, event_log, origin_of
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.servers import MODELS, Realm, Server, find_realm, find_server
from clarion.secrets import Secret
from clarion.tables import bind

KEPT_SECONDS = 60
MOST_KEPT = 10_000
SENDERS = 8
"""Requests to the queues at once."""


class Recent[Row: Model]:
    """Rows by their ids, kept for `KEPT_SECONDS` so that not each call reads them."""

    def __init__(self, find: Callable[[UUID], Row | None], clock: Callable[[], float] = monotonic) -> None:
        self._find = find
        self._clock = clock
        self._kept: dict[UUID, tuple[float, Row]] = {}

    def get(self, row_id: UUID, serves: Callable[[Row], bool]) -> Row | None:
        """One that doesn't serve is read again: nothing is refused by what it was before."""
        read_at, row = self._kept.get(row_id, (0.0, None))
        if row is not None and self._clock() < read_at + KEPT_SECONDS and serves(row):
            return row
        row = self._find(row_id)
        if row is not None:
            self._keep(row_id, row)
        return row

    def _keep(self, row_id: UUID, row: Row) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[row_id] = (self._clock(), row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZulipWorker(Worker):
    """What one instance of the router keeps."""

    settings: ZulipSettings
    keys: KeyRing
    servers: Recent[Server]
    realms: Recent[Realm]
    device_quota: DeviceQuota
    senders: Executor

    @classmethod
    def serving(cls, settings: ZulipSettings) -> Self:
        sqs = boto3.client("sqs", config=QUEUE_IN_TIME)
        secret = Secret(boto3.client("secretsmanager"), settings.secrets[BOUNCER_SECRET], BouncerKeys)
        return cls(
            settings=settings,
            connection=bind(settings.table_prefix, seconds=TABLE_SECONDS, own=MODELS),
            sqs=sqs,
            events=event_log(sqs, settings),
            origin=origin_of(settings.origin_secret_id),
            service=settings.network,
            keys=KeyRing(secret),
            servers=Recent(find_server),
            realms=Recent(find_realm),
            device_quota=DeviceQuota(),
            senders=ThreadPoolExecutor(SENDERS),
        )
