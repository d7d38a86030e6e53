"""What an instance of Zulip's router keeps from one call to the next."""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self
from uuid import UUID

import boto3

from api.networks.zulip.allowances import Allowances
from api.networks.zulip.bouncer_keys import KeyRing
from api.networks.zulip.device_quota import DeviceQuota
from api.networks.zulip.settings import ZulipSettings
from api.recent import Recent
from api.worker import QUEUE_IN_TIME, TABLE_SECONDS, EmittingWorker, event_log, origin_of
from clarion.networks.zulip.keys import BouncerKeys
from clarion.networks.zulip.needs import BOUNCER_SECRET
from clarion.networks.zulip.servers import MODELS, Realm, Server, find_realm, find_server
from clarion.secrets import Secret
from clarion.tables import bind

SENDERS = 8
"""Requests to the queues, or to a table, at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZulipWorker(EmittingWorker):
    settings: ZulipSettings
    keys: KeyRing
    servers: Recent[UUID, Server]
    realms: Recent[UUID, Realm]
    device_quota: DeviceQuota
    allowances: Allowances
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
            allowances=Allowances(),
            senders=ThreadPoolExecutor(SENDERS),
        )
