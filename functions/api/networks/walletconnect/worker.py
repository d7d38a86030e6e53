"""What an instance of WalletConnect's router keeps."""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

from api.networks.walletconnect.settings import DappApiSettings
from api.recent import Recent
from api.worker import Worker, origin_of
from clarion import aws
from clarion.networks.walletconnect.needs import SERVER_SECRET
from clarion.networks.walletconnect.projects import Project, find_project
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.tables import MODELS
from clarion.secrets import Secret
from clarion.tables import bind

THREADS = 16
"""Requests to tables and queues at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DappApiWorker(Worker):
    settings: DappApiSettings
    keys: Secret[ServerKeys]
    projects: Recent[str, Project]
    threads: Executor

    @classmethod
    def serving(cls, settings: DappApiSettings) -> Self:
        connection = bind(settings.table_prefix, pool=THREADS, own=MODELS)
        session = connection.session
        sqs = aws.sqs(session, pool=THREADS)
        return cls(
            settings=settings,
            connection=connection,
            sqs=sqs,
            origin=origin_of(session, settings.origin_secret_id),
            service=settings.network,
            keys=Secret(aws.secrets(session), settings.secrets[SERVER_SECRET], ServerKeys),
            projects=Recent(find_project),
            threads=ThreadPoolExecutor(THREADS),
        )
