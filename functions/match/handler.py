"""The Lambda: a batch of statement messages in, the ids of those that are to come again out."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from match.room import Clients, Room
from match.settings import MatchSettings

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handler(event: Mapping[str, Any], context: "LambdaContext") -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    unfinished = _room().take(event["Records"], context.get_remaining_time_in_millis)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


@cache
def _room() -> Room:
    settings = MatchSettings.from_environment()
    return Room.open(settings, Clients.make(settings.table_prefix))
