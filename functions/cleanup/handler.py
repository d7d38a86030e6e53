"""The Lambda behind the cleanup queue: erases the rules that can't come into force any more.

Every message may come twice and finds less to do each time. What the time of one invocation is not enough for comes
again, and goes on where this one stopped.
"""

import time
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import ValidationError
from pynamodb.connection import Connection
from pynamodb.exceptions import PynamoDBException

from clarion import tables
from clarion.cleanup import erase_dead
from clarion.messages import CleanupMessage
from clarion.settings import Settings

SPARE_SECONDS = 10
"""What is under way when the time is up may take so long."""

logger = Logger(service="cleanup")


class CleanupSettings(Settings):
    table_prefix: str


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    until = time.monotonic() + context.get_remaining_time_in_millis() / 1000 - SPARE_SECONDS
    unfinished = [record["messageId"] for record in event["Records"] if not _clean_up(record["body"], until)]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


def _clean_up(body: str, until: float) -> bool:
    """Whether the message is done with."""
    try:
        message = CleanupMessage.model_validate_json(body)
        names = map(str, message.subscription_ids)
        return all(erase_dead(_connection(), name, message.through, until=until) for name in names)
    except (ValidationError, PynamoDBException, BotoCoreError, ClientError):
        logger.exception("not cleaned up")
        return False


@cache
def _connection() -> Connection:
    return tables.bind(CleanupSettings.from_environment().table_prefix)
