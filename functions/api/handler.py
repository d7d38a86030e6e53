"""The API function."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from api.app import handle
from api.room import Room
from api.settings import ApiSettings

ROOM = Room.open(ApiSettings.from_environment())


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return handle(event, context, ROOM)
