"""From a request of API Gateway to its answer: which call it is, and how whatever it raises is worded."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from api.networks.zulip import analytics, legacy
from api.networks.zulip.call import PublicCall, ServerCall
from api.networks.zulip.call_rate import EXPIRED, LEGACY_NOTIFY, NOTIFY, REGISTER, require_call
from api.networks.zulip.errors import ZulipCode, ZulipError, of_problem
from api.networks.zulip.expired import expired
from api.networks.zulip.notifying import notify
from api.networks.zulip.registering import register
from api.networks.zulip.servers import deactivate_server, refuse_transfer, register_server
from api.networks.zulip.worker import ZulipWorker
from api.problems import Problem
from api.requests import UNAVAILABLE, Event, check_origin, deadline, not_now
from clarion.networks.zulip.needs import LEGACY_REFUSED, ROOT, TRANSFER

type Answered = Mapping[str, Any]


SERVER_CALLS: Mapping[tuple[str, str], Callable[[ServerCall], Answered]] = {
    ("POST", REGISTER): register,
    ("POST", NOTIFY): notify,
    ("GET", EXPIRED): expired,
    ("POST", "/server/deactivate"): deactivate_server,
    ("POST", "/server/analytics"): analytics.report,
    ("GET", "/server/analytics/status"): analytics.status,
    ("POST", LEGACY_NOTIFY): legacy.notify,
    ("POST", "/push/unregister/all"): legacy.unregister_all,
    **{("POST", f"/push/{name}"): legacy.refuse for name in LEGACY_REFUSED},
}
"""By method and path below `ROOT`."""
PUBLIC_CALLS: Mapping[tuple[str, str], Callable[[PublicCall], Answered]] = {
    ("POST", "/server/register"): register_server,
    **{("POST", f"/server/register/{name}"): refuse_transfer for name in TRANSFER},
}
"""From servers that need not be known."""


def answer(event: Event, worker: ZulipWorker) -> Mapping[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    try:
        check_origin(event, worker.origin)
        content = {"result": "success", "msg": "", **_answered(PublicCall(worker, event, deadline()))}
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
    if name in PUBLIC_CALLS:
        return PUBLIC_CALLS[name](call)
    if name not in SERVER_CALLS:
        raise ZulipError(ZulipCode.NOT_FOUND)
    server_call = ServerCall.of(call)
    require_call(server_call, name[1])
    return SERVER_CALLS[name](server_call)


def _refused(error: ZulipError) -> dict[str, Any]:
    return _built(error.code.status, error.body, error.headers)


def _built(status: int, content: Answered, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {
        "statusCode": int(status),
        "headers": {"Content-Type": "application/json", **(headers or {})},
        "body": json.dumps(content),
        "isBase64Encoded": False,
    }
