"""The API function's start: apart from `app`, since whoever imports this module starts it."""

from typing import Any

from clarion.cold_start import without_collection

with without_collection():
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from api.app import handle, resolver
    from api.settings import ApiSettings
    from api.worker import ApiWorker

    WORKER = ApiWorker.open(ApiSettings.from_environment())
    # The networks' routes are imported before the first request, too.
    resolver(WORKER.settings.networks)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return handle(event, context, WORKER)
