"""The program around the task: logs as JSON, and stops on a signal."""

import asyncio
import logging
import signal
import sys

from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

from ntf.counts import SERVICE
from ntf.settings import NtfSettings
from ntf.task import NtfTask, wire
from ntf.tls import prefers_our_suite


class SuitesError(RuntimeError):
    """Agents would be refused: OpenSSL prefers a suite that the server doesn't take."""


def run() -> None:
    log_as_json()
    serve(wire(NtfSettings.from_environment()))


def serve(task: NtfTask) -> None:
    """Until a signal. Raises `SuitesError`."""
    if not prefers_our_suite(task.service.context):
        raise SuitesError("OPENSSL_CONF names another configuration than ntf/openssl.cnf")
    asyncio.run(_until_signalled(task))


async def _until_signalled(task: NtfTask) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await task.run(stop)


def log_as_json() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LambdaPowertoolsFormatter(service=SERVICE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("botocore").setLevel(logging.WARNING)
