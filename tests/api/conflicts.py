"""A transaction that never ends: what writes of one item meet then, after the SDK's retries."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from pynamodb.models import Model

from clarion.aws import CONFLICT


@contextmanager
def conflicts(model: type[Model]) -> Iterator[list[str]]:
    """Writes of one item of the model's table fail; yields their names as they come."""
    refused: list[str] = []

    def refuse(params: dict[str, Any], model: Any, **_: Any) -> Any:
        if model.name not in {"UpdateItem", "PutItem", "DeleteItem"} or table not in str(params["body"]):
            return None
        refused.append(model.name)
        parsed = {"Error": {"Code": CONFLICT, "Message": "as planned"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        return AWSResponse("", 400, HTTPHeaders(), None), parsed

    table = model.Meta.table_name
    client = model._get_connection().connection.client
    client.meta.events.register_first("before-call.dynamodb", refuse)
    try:
        yield refused
    finally:
        client.meta.events.unregister("before-call.dynamodb", refuse)
