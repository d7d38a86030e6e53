"""From a request of API Gateway to its answer: which call it is, and how whatever it raises is worded."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from api.networks.walletconnect.apps import subscribe_topic
from api.networks.walletconnect.authentication import authenticated
from api.networks.walletconnect.call import DappAnswer, DappCall, ProjectCall
from api.networks.walletconnect.errors import DappError, not_found, of_problem
from api.networks.walletconnect.notify import notify, notify_each
from api.networks.walletconnect.public_calls import did_json, follow_link
from api.networks.walletconnect.subscribers import list_subscribers, mark_all_as_read, show_subscribers
from api.networks.walletconnect.welcome import set_welcome, show_welcome
from api.networks.walletconnect.worker import DappApiWorker
from api.problems import Problem
from api.requests import UNAVAILABLE, Event, check_origin, not_now

PUBLIC_CALLS: Mapping[str, Callable[[DappCall], DappAnswer]] = {
    "GET /.well-known/did.json": did_json,
    "GET /v1/notification/{id}": follow_link,
}
PROJECT_CALLS: Mapping[str, Callable[[ProjectCall], DappAnswer]] = {
    "POST /{project}/notify": notify,
    "POST /v1/{project}/notify": notify_each,
    "GET /{project}/subscribers": list_subscribers,
    "POST /v1/{project}/subscribers": show_subscribers,
    "POST /{project}/subscribe-topic": subscribe_topic,
    "GET /v0/{project}/welcome-notification": show_welcome,
    "POST /v0/{project}/welcome-notification": set_welcome,
    "GET /v1/{project}/mark-all-as-read": mark_all_as_read,
}
"""By method and path."""
_PARAMETERS = {"project": "[0-9a-f]{32}", "id": "[A-Za-z0-9_-]+"}
"""Project ids are such that none of them is a segment of any other route."""


def answer(event: Event, worker: DappApiWorker) -> Mapping[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    try:
        check_origin(event, worker.origin)
        built = _built(_answered(event, worker))
    except DappError as error:
        built = _refused(error)
    except Problem as problem:
        built = _refused(of_problem(worker.counted(problem)))
    except UNAVAILABLE as error:
        built = _refused(of_problem(worker.counted(not_now(error))))
    worker.count_status(built["statusCode"])
    return built


def _answered(event: Event, worker: DappApiWorker) -> DappAnswer:
    request_line = f"{event['requestContext']['http']['method']} {event['rawPath']}"
    for route in (*PUBLIC_CALLS, *PROJECT_CALLS):
        if found := _pattern(route).fullmatch(request_line):
            call = DappCall(worker, event, found.groupdict())
            return PUBLIC_CALLS[route](call) if route in PUBLIC_CALLS else PROJECT_CALLS[route](authenticated(call))
    raise not_found()


@cache
def _pattern(route: str) -> re.Pattern[str]:
    fixed = re.escape(route).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(re.sub(r"{(\w+)}", lambda name: f"(?P<{name[1]}>{_PARAMETERS[name[1]]})", fixed))


def _refused(error: DappError) -> dict[str, Any]:
    return _built(DappAnswer.of({"reason": error.reason}, error.status, **error.headers))


def _built(found: DappAnswer) -> dict[str, Any]:
    return {
        "statusCode": int(found.status),
        "headers": dict(found.headers),
        "body": found.body,
        "isBase64Encoded": False,
    }
