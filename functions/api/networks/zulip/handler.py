"""The router's start: apart from `router`, since whoever imports this module starts it."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from api.networks.zulip.router import answer
from api.networks.zulip.settings import ZulipSettings
from api.networks.zulip.worker import ZulipWorker

WORKER = ZulipWorker.serving(ZulipSettings.from_environment())


def handle(event: dict[str, Any], _: LambdaContext) -> Mapping[str, Any]:
    return answer(event, WORKER)
