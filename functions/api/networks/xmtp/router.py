"""From a request of API Gateway to its answer: who calls, how, and what; and how every refusal is worded."""

import time
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from api.networks.xmtp.codes import CallCode, CallError, of_problem
from api.networks.xmtp.protocols import MEDIA_TYPES, CallProtocol, HttpAnswer, protocol_of
from api.networks.xmtp.service import RPCS, XmtpCall, XmtpWorker
from api.problems import Problem, ProblemKind
from api.requests import (
    UNAVAILABLE,
    Event,
    body_of,
    caller,
    check_origin,
    deadline,
    not_now,
    within_allowance,
)


def answer(event: Event, worker: XmtpWorker) -> Mapping[str, Any]:
    """Answer one request of API Gateway (payload 2.0)."""
    protocol = protocol_of(event["headers"].get("content-type", ""))
    if protocol is None:
        return {"statusCode": HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "headers": {"Accept-Post": ", ".join(MEDIA_TYPES)}}
    try:
        found = protocol.answer(_message(event, protocol, worker))
    except CallError as error:
        found = protocol.refusal(error)
    except Problem as problem:
        found = protocol.refusal(of_problem(worker.counted(problem)))
    except UNAVAILABLE as error:
        found = protocol.refusal(of_problem(worker.counted(not_now(error))))
    worker.emit_events()
    worker.count_status(found.status)
    return _built(found)


def _message(event: Event, protocol: CallProtocol, worker: XmtpWorker) -> bytes:
    """The message of the answer."""
    check_origin(event, worker.origin)
    client_id, headers, limit = caller(event), event["headers"], worker.settings.body_bytes
    within_allowance(client_id, worker)
    rpc = RPCS.get(event["rawPath"].rpartition("/")[2])
    if rpc is None:
        raise CallError(CallCode.UNIMPLEMENTED, "no such method")
    _check_encoding(event)
    call = XmtpCall(worker, client_id, deadline(protocol.seconds(headers)), headers)
    message = protocol.codec.read(protocol.message(headers, body_of(event, limit), limit), rpc.request)
    try:
        return protocol.codec.write(rpc.answer(call, message))
    except Problem as problem:
        if problem.kind is ProblemKind.CONTENDED and time.monotonic() > call.until:
            raise CallError(CallCode.DEADLINE_EXCEEDED, "there was no time left") from None
        raise


def _check_encoding(event: Event) -> None:
    """What API Gateway takes for text, as it does JSON, comes as text: compressed bytes don't survive that."""
    encoding = event["headers"].get("content-encoding", "").strip().lower()
    if event.get("body") and not event.get("isBase64Encoded") and encoding not in {"", "identity"}:
        raise CallError(CallCode.UNIMPLEMENTED, "no compression can pass with this media type: identity is supported")


def _built(found: HttpAnswer) -> dict[str, Any]:
    return {
        "statusCode": found.status,
        "headers": {"Content-Type": found.media_type, **found.headers},
        "body": b64encode(found.body).decode(),
        "isBase64Encoded": True,
    }
