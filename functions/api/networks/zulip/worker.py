"""What an instance of Zulip's router keeps from one call to the next."""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self
from uuid import UUID

from api.networks.zulip.allowances import Allowances
from api.networks.zulip.bouncer_keys import KeyRing
from api.networks.zulip.device_quota import DeviceQuota
from api.networks.zulip.settings import ZulipSettings
from api.recent import Recent
from api.worker import EmittingWorker, event_log, origin_of
from clarion import aws
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
        connection = bind(settings.table_prefix, own=MODELS)
        session = connection.session
        sqs = aws.sqs(session)
        secret = Secret(aws.secrets(session), settings.secrets[BOUNCER_SECRET], BouncerKeys)
        return cls(
            settings=settings,
            connection=connection,
            sqs=sqs,
            events=event_log(session, sqs, settings),
            origin=origin_of(session, settings.origin_secret_id),
            service=settings.network,
            keys=KeyRing(secret),
            servers=Recent(find_server),
            realms=Recent(find_realm),
            device_quota=DeviceQuota(),
            allowances=Allowances(),
            senders=ThreadPoolExecutor(SENDERS),
        )
