"""The task: listens until it is to stop, and then answers what it has read."""

import asyncio
import logging
from dataclasses import dataclass

from clarion.health import serve_health
from ntf.counts import report, report_forever
from ntf.server import NtfServer
from ntf.session import Service
from ntf.settings import NtfSettings

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
        peers = self.service.peers
        return {"connections": peers.connections, "handshakes": peers.handshakes, "peers": len(peers)}
