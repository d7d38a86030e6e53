"""`python -m ingest`: follow the nodes until SIGTERM."""

import asyncio
import logging
import signal
import sys
from collections import Counter

import boto3
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from botocore.config import Config

from clarion.metrics import Metric
from ingest.counts import SERVICE, Counts, report, report_forever
from ingest.intake import Intake
from ingest.node import Node
from ingest.outbox import Outbox, send_forever
from ingest.settings import IngestSettings
from ingest.statements_queue import StatementsQueue

IN_FLIGHT = 8
DRAIN_SECONDS = 20.0
CAPACITY = 64 * 1024 * 1024

log = logging.getLogger(SERVICE)

# The outbox retries, so that the SDK must not hide for long that the queue is failing.
_CONFIG = Config(
    connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 1}, max_pool_connections=2 * IN_FLIGHT
)


async def run(settings: IngestSettings, queue: StatementsQueue, stop: asyncio.Event) -> None:
    """Follow all nodes until `stop`, then send what is still held."""
    counts: Counts = Counter()
    outbox = Outbox(CAPACITY)
    intake = Intake(outbox, counts, settings.first_replay)
    nodes = [Node(url, intake, counts) for url in settings.node_urls]

    def gauges() -> dict[Metric, int]:
        return {Metric.NODES_CONNECTED: sum(node.connected for node in nodes)}

    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(node.follow()) for node in nodes]
        sending = [tasks.create_task(send_forever(outbox, queue.send)) for _ in range(IN_FLIGHT)]
        reporting = tasks.create_task(report_forever(counts, gauges))
        await stop.wait()
        for task in following:
            task.cancel()
        try:
            await asyncio.wait_for(outbox.empty(), DRAIN_SECONDS)
        except TimeoutError:
            log.warning("stopped with statements unsent", extra={"held_bytes": outbox.held})
        for task in (*sending, reporting):
            task.cancel()
    report(counts, gauges())


async def main() -> None:
    settings = IngestSettings.from_environment()
    queue = StatementsQueue(
        boto3.client("sqs", config=_CONFIG),
        settings.statements_queue_url,
        boto3.client("s3", config=_CONFIG),
        settings.oversize_bucket,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(settings, queue, stop)


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LambdaPowertoolsFormatter(service=SERVICE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


if __name__ == "__main__":
    _log_as_json()
    asyncio.run(main())
