"""From a request of API Gateway to its answer: which call it is, and how whatever it raises is worded."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from api.networks.zulip import analytics
from api.networks.zulip.call import PublicCall, ServerCall
from api.networks.zulip.errors import ZulipCode, ZulipError, of_problem
from api.networks.zulip.expired import expired
from api.networks.zulip.notifying import notify
from api.networks.zulip.registering import register
from api.networks.zulip.servers import deactivate_server, register_server
from api.networks.zulip.worker import ZulipWorker
from api.problems import Problem
from api.requests import UNAVAILABLE, Event, check_origin, not_now
from clarion.networks.zulip.needs import LEGACY, ROOT

type Answered = Mapping[str, Any]


def _refuse_legacy(_: ServerCall) -> Answered:
    raise ZulipError(ZulipCode.LEGACY_PUSH_UNSUPPORTED)


SERVER_CALLS: Mapping[tuple[str, str], Callable[[ServerCall], Answered]] = {
    ("POST", "/push/e2ee/register"): register,
    ("POST", "/push/e2ee/notify"): notify,
    ("GET", "/push/e2ee/expired"): expired,
    ("POST", "/server/deactivate"): deactivate_server,
    ("POST", "/server/analytics"): analytics.report,
    ("GET", "/server/analytics/status"): analytics.status,
    **{("POST", f"/push/{name}"): _refuse_legacy for name in LEGACY},
}
"""By method and path below `ROOT`."""
REGISTER_SERVER = ("POST", "/server/register")


def answer(event: Event, worker: ZulipWorker) -> Mapping[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    try:
        check_origin(event, worker.origin)
        content = {"result": "success", "msg": "", **_answered(PublicCall(worker, event))}
        built = _built(HTTPStatus.OK, content)
    except ZulipError as error:
        built = _refused(error)
    except Problem as problem:
        built = _refused(of_problem(worker.counted(problem)))
    except UNAVAILABLE as error:
        built = _refused(of_problem(worker.counted(not_now(error))))
    worker.emit_events()
    worker.count_status(built["statusCode"])
    return built


def _answered(call: PublicCall) -> Answered:
    name = call.event["requestContext"]["http"]["method"], call.event["rawPath"].removeprefix(ROOT).rstrip("/")
    if name == REGISTER_SERVER:
        return register_server(call)
    if name not in SERVER_CALLS:
        raise ZulipError(ZulipCode.NOT_FOUND)
    return SERVER_CALLS[name](ServerCall.of(call))


def _refused(error: ZulipError) -> dict[str, Any]:
    return _built(error.code.status, error.body, error.headers)


def _built(status: int, content: Answered, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "statusCode": int(status),
        "headers": {"Content-Type": "application/json", **(headers or {})},
        "body": json.dumps(content),
        "isBase64Encoded": False,
    }
