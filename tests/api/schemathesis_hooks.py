"""Loaded by schemathesis: rules go to a subscription that is there, so that the tests get past the 404."""

import os
from typing import Any
from uuid import UUID

import schemathesis


@schemathesis.hook
def map_body(_: Any, body: Any) -> Any:
    """An invalid id stays as it is: it is there to be refused."""
    if isinstance(body, dict) and _is_uuid(body.get("subscription_id")):
        return body | {"subscription_id": os.environ["SUBSCRIPTION_ID"]}
    return body


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False
