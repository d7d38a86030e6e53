"""Loaded by schemathesis: rules go to a subscription and registrations to an app that are there, to get past refusals."""

import os
import re
from typing import Any
from uuid import UUID

import schemathesis

from api.networks.statements.shapes import APP


@schemathesis.hook
def map_body(_: Any, body: Any) -> Any:
    """What is invalid stays as it is: it is there to be refused."""
    if isinstance(body, dict) and _is_uuid(body.get("subscription_id")):
        return body | {"subscription_id": os.environ["SUBSCRIPTION_ID"]}
    return body


@schemathesis.hook
def before_call(_: Any, case: Any, _arguments: Any) -> None:
    """Which apps there are is the deployment's, so the description can't say it."""
    app = case.body.get("app") if isinstance(case.body, dict) else None
    if isinstance(app, str) and re.fullmatch(APP, app):
        case.body["app"] = "first"


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False
