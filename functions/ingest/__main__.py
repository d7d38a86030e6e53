"""`python -m ingest`: work until SIGTERM."""

import asyncio
import logging
import signal
import sys

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from ingest.counts import SERVICE
from ingest.settings import IngestSettings
from ingest.wiring import AwsClients, wire


async def main() -> None:
    settings = IngestSettings.from_environment()
    task = wire(settings, AwsClients.from_environment(settings.table_prefix))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await task.run(stop)


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LambdaPowertoolsFormatter(service=SERVICE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("botocore").setLevel(logging.WARNING)


if __name__ == "__main__":
    _log_as_json()
    asyncio.run(main())
