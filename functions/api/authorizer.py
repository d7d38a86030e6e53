"""The authorizer function's start: apart from `authorization`, since whoever imports this module starts it."""

from typing import Any

from clarion.cold_start import without_collection

with without_collection():
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from api.authorization import Authorizer
    from api.settings import AuthorizerSettings
    from clarion import aws

    AUTHORIZER = Authorizer(AuthorizerSettings.from_environment(), aws.secrets(aws.new_session()))


def handler(event: dict[str, Any], _: LambdaContext) -> dict[str, Any]:
    return AUTHORIZER(event)
