"""The router's start: apart from `router`, since whoever imports this module starts it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from api.networks.xmtp.router import answer
from api.networks.xmtp.service import XmtpWorker
from api.networks.xmtp.settings import XmtpSettings
from clarion.networks.xmtp.installations import Installation

SETTINGS = XmtpSettings.from_environment()
WORKER = replace(XmtpWorker.serving(SETTINGS, kept_beside=Installation), service=SETTINGS.network)


def handle(event: dict[str, Any], _: LambdaContext) -> Mapping[str, Any]:
    return answer(event, WORKER)
