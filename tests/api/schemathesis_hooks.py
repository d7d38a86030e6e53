"""Loaded by schemathesis: rules go to a subscription and registrations to an app that are there, to get past refusals."""

import json
import os
import re
from typing import Any
from uuid import UUID

import schemathesis
from hypothesis import strategies as st

from api.shapes import APP

P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
"""The browser's key in RFC 8291's example."""


def _push_subscription(path: int) -> str:
    keys = {"p256dh": P256DH, "auth": "AAAAAAAAAAAAAAAAAAAAAA"}
    return json.dumps({"endpoint": f"https://fcm.googleapis.com/fcm/send/{path}", "keys": keys})


schemathesis.openapi.format("push-subscription", st.integers(min_value=0).map(_push_subscription))


@schemathesis.hook
def map_body(_: Any, body: Any) -> Any:
    """What is invalid stays as it is: it is there to be refused."""
    if isinstance(body, dict) and _is_uuid(body.get("subscription_id")):
        return body | {"subscription_id": os.environ["SUBSCRIPTION_ID"]}
    return body


@schemathesis.hook
def before_call(_: Any, case: Any, _arguments: Any) -> None:
    """Which apps there are is the deployment's, so the description can't say it; nor that two spellings exclude each other."""
    case.body = _one_spelling(case.body)
    app = case.body.get("app") if isinstance(case.body, dict) else None
    if isinstance(app, str) and re.fullmatch(APP, app):
        case.body["app"] = "first"


def _one_spelling(value: Any) -> Any:
    """Without a field in camel case beside the same one in snake case, which would be refused if they differ."""
    match value:
        case dict():
            return {
                name: _one_spelling(each)
                for name, each in value.items()
                if _snake(name) == name or _snake(name) not in value
            }
        case list():
            return [_one_spelling(each) for each in value]
    return value


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _is_uuid(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(UUID(value))
    except ValueError:
        return False
