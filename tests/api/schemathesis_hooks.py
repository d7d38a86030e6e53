"""Loaded by schemathesis: rules go to a subscription and registrations to an app that are there, to get past refusals."""

import json
import os
import re
from typing import Any
from uuid import UUID

import schemathesis
from hypothesis import strategies as st

from api.shapes import APP
from clarion.channels import Channel

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
    if isinstance(case.body, dict) and Channel.WEBPUSH in (
        case.body.get("notificationType"),
        case.body.get("platform"),
    ):
        _write_as_browsers_do(case.body)
    if _is_uuid((case.path_parameters or {}).get("subscription_id")):
        case.path_parameters["subscription_id"] = os.environ["SUBSCRIPTION_ID"]
        _fit_to_channel(case.body)


def _write_as_browsers_do(body: dict[str, Any]) -> None:
    """What is generated may disregard the format of the token."""
    if isinstance(body.get("token"), str):
        body["token"] = _push_subscription(len(body["token"]))


def _fit_to_channel(body: Any) -> None:
    """Of which channel a subscription is, the description can't say: the one that is there is of `apns`."""
    if not isinstance(body, dict):
        return
    if isinstance(body.get("token"), str):
        body["token"] = f"{len(body['token']):064x}"
    if body.get("notificationType") in list(Channel):
        body["notificationType"] = Channel.APNS.value


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
