"""Loaded by schemathesis, to get past refusals: requests are about subscriptions, apps and codes that are there.

In the environment: `SUBSCRIPTION_ID`, active; `PENDING_ID`, whose code nobody has; `PROVABLE_ID` with its `CODE`;
`REMOVABLE_IDS`, each good for one removal.
"""

import json
import os
import re
from itertools import cycle
from typing import Any
from uuid import UUID, uuid4

import schemathesis
from hypothesis import strategies as st

from api.networks.statements.direct import DIRECT_DEVICE
from api.shapes import APP, CODE
from clarion.channels import Channel
from clarion.tables import TRANSACTION_SUBSCRIPTIONS

P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
"""The browser's key in RFC 8291's example."""


def _push_subscription(path: int) -> str:
    keys = {"p256dh": P256DH, "auth": "AAAAAAAAAAAAAAAAAAAAAA"}
    return json.dumps({"endpoint": f"https://fcm.googleapis.com/fcm/send/{path}", "keys": keys})


schemathesis.openapi.format("push-subscription", st.integers(min_value=0).map(_push_subscription))


TOKENS = 3
"""Of these the client has the first by another subscription."""
PROOFS = cycle([(os.environ["PROVABLE_ID"], os.environ["CODE"]), (os.environ["PENDING_ID"], None)])
REMOVABLE_IDS = iter(os.environ["REMOVABLE_IDS"].split(","))


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
    if isinstance(case.body, dict) and case.body.get("platform") == "ios":
        _write_as_iphones_do(case.body)
    if _is_uuid((case.path_parameters or {}).get("subscription_id")):
        case.path_parameters["subscription_id"] = os.environ["SUBSCRIPTION_ID"]
        _fit_to_channel(case.body)
        _prove(case)
    if isinstance(case.body, dict) and _are_uuids(case.body.get("subscription_ids")):
        case.body["subscription_ids"] = [next(REMOVABLE_IDS, str(uuid4()))]


def _write_as_browsers_do(body: dict[str, Any]) -> None:
    """What is generated may disregard the format of the token."""
    if isinstance(body.get("token"), str):
        body["token"] = _push_subscription(len(body["token"]))


def _write_as_iphones_do(body: dict[str, Any]) -> None:
    """That a direct push to an iPhone has a token in hex, the description can't say."""
    if re.fullmatch(DIRECT_DEVICE, str(body.get("deviceToken"))):
        body["deviceToken"] = "0a" * 32


def _prove(case: Any) -> None:
    """Half of the codes are right."""
    if case.path.endswith("/proof/request"):
        case.path_parameters["subscription_id"] = os.environ["PENDING_ID"]
    elif isinstance(case.body, dict) and re.fullmatch(CODE, str(case.body.get("code"))):
        name, code = next(PROOFS)
        case.path_parameters["subscription_id"] = name
        case.body["code"] = code or case.body["code"]


def _fit_to_channel(body: Any) -> None:
    """Of which channel a subscription is, the description can't say: the one that is there is of `apns`."""
    if not isinstance(body, dict):
        return
    if isinstance(body.get("token"), str):
        body["token"] = f"{len(body['token']) % TOKENS:064x}"
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


def _are_uuids(value: object) -> bool:
    return isinstance(value, list) and 0 < len(value) <= TRANSACTION_SUBSCRIPTIONS and all(map(_is_uuid, value))
