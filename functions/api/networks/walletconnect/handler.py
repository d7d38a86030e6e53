"""The router's start: apart from `router`, since whoever imports this module starts it."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from api.networks.walletconnect.router import answer
from api.networks.walletconnect.settings import DappApiSettings
from api.networks.walletconnect.worker import DappApiWorker

WORKER = DappApiWorker.serving(DappApiSettings.from_environment())


def handle(event: dict[str, Any], _: LambdaContext) -> Mapping[str, Any]:
    return answer(event, WORKER)
