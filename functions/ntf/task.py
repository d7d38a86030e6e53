"""The task: how it is put together, and that it listens until it is to stop, and then answers what it has read."""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass

from clarion import aws
from clarion.health import serve_health
from clarion.metrics import Metric
from clarion.networks.simplex.needs import IDENTITY
from clarion.networks.simplex.server_identity import ServerIdentity
from clarion.secrets import Secret
from ntf.block_executor import BlockExecutor, CommandHandler
from ntf.bounds import Peers
from ntf.commands.wiring import commands_of
from ntf.counts import report, report_forever
from ntf.pace import Pace
from ntf.server import NtfServer
from ntf.session import Service
from ntf.settings import NtfSettings
from ntf.tls import server_context
from ntf.turns import Turns

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NtfTask:
    settings: NtfSettings
    service: Service
    server: NtfServer

    async def run(self, stop: asyncio.Event) -> None:
        settings = self.settings
        health = await serve_health(settings.host, settings.health_port, self._is_ready, self._status)
        async with health, asyncio.TaskGroup() as tasks:
            port = await self.server.listen(settings.host, settings.port)
            log.info("listening", extra={"port": port, "identity": self.service.identity.fingerprint.hex()})
            reporting = tasks.create_task(report_forever(settings.stage, self.service.counts, self._connections))
            await stop.wait()
            await self.server.stop()
            reporting.cancel()
        self.service.executor.close()
        report(settings.stage, self.service.counts, self._connections())

    def _is_ready(self) -> bool:
        return self.server.takes_connections

    def _connections(self) -> int:
        return self.service.peers.connections

    def _status(self) -> dict[str, object]:
        peers, turns = self.service.peers, self.service.turns
        return {
            "connections": peers.connections,
            "handshakes": len(peers.handshakes),
            "peers": len(peers),
            "waiting": turns.waiting,
        }


def wire(settings: NtfSettings) -> NtfTask:
    """As it is deployed. Raises `SecretError` if `clarion simplex identity create` has not been called yet."""
    secret = Secret(aws.secrets(aws.new_session()), settings.secrets[IDENTITY], ServerIdentity)
    return assemble(settings, secret.get(), commands_of(settings, settings.bounds.threads))


def assemble(settings: NtfSettings, identity: ServerIdentity, handler: CommandHandler) -> NtfTask:
    """One handler for all sessions: it is made once."""
    counts, bounds = Counter[Metric](), settings.bounds
    peers = Peers(bounds)
    service = Service(
        identity=identity,
        context=server_context(identity),
        executor=BlockExecutor(handler, counts, peers.registering, threads=bounds.threads),
        peers=peers,
        turns=Turns(bounds.blocks_at_once, Pace(bounds.task_commands_per_second, bounds.task_burst)),
        counts=counts,
    )
    return NtfTask(settings, service, NtfServer(service))
