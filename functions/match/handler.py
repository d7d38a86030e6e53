"""The Lambda: a batch of messages about envelopes in, the ids of those to be received again out."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from clarion.cold_start import without_collection

with without_collection():
    from match.settings import MatchSettings
    from match.worker import MatchClients, MatchWorker

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handler(event: Mapping[str, Any], context: "LambdaContext") -> dict[str, list[dict[str, str]]]:
    """Partial failures: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html"""
    unfinished = _worker().handle(event["Records"], context.get_remaining_time_in_millis)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}


@cache
@without_collection()
def _worker() -> MatchWorker:
    settings = MatchSettings.from_environment()
    return MatchWorker.open(settings, MatchClients.make(settings.table_prefix))
