"""`push/e2ee/notify`: pushes for devices of one realm, put on the channels' queues.

Either all that can be sent is queued, or the answer is an error: a server that then asks again repeats the same pushes,
with the same ids. Counts are of what is queued. Devices that are unknown, have ended, or are of another kind are named, for the server to
forget.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from api import quotas
from api.networks.zulip.call import ServerCall
from api.networks.zulip.devices import active_devices, named_as_ended
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.pushes import AskedPush, PushArguments
from api.problems import Problem, ProblemKind
from api.quotas import Rate
from clarion import sqs
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks.zulip.payload import CHANNELS, Body, fits, push_of
from clarion.sqs import SqsMessage
from clarion.tables import Subscription

CAN_PUSH = {"can_push": True, "expected_end_timestamp": None}
"""A realm's push status, in Zulip's words: for as long as it is registered."""

type Found = Sequence[tuple[AskedPush, Subscription | None]]
"""What is asked for, with its device; None if that is unknown, has ended, or is of another kind."""


def notify(call: ServerCall) -> Mapping[str, Any]:
    asked = call.body(PushArguments)
    call.realm(asked.realm_uuid)
    _within_allowance(call, len(asked.pushes))
    found = _found(call, asked)
    messages = _messages(call, found)
    _queue(call, messages)
    queued = Counter(message.channel for message in messages)
    return {
        "apple_successfully_sent_count": queued[Channel.APNS],
        "android_successfully_sent_count": queued[Channel.FCM],
        "realm_push_status": CAN_PUSH,
        **named_as_ended(asked.profile, dict.fromkeys(push.name for push, row in found if row is None)),
    }


def _within_allowance(call: ServerCall, pushes: int) -> None:
    limit = int(call.server.pushes_a_minute or call.worker.settings.pushes_per_minute)
    name = f"zulip_pushes:{call.server.server_uuid}"
    quotas.require(name, Rate(limit, 60), call.now, f"at most {limit} pushes a minute", pushes)


def _found(call: ServerCall, asked: PushArguments) -> Found:
    ids = [push.subscription_id(call.server_uuid, asked.realm_uuid) for push in asked.pushes]
    rows = active_devices(call.server, asked.realm_uuid, asked.profile, ids)
    found = zip(asked.pushes, map(rows.get, ids), strict=True)
    return [(push, row if row is not None and push.suits(row) else None) for push, row in found]


def _messages(call: ServerCall, found: Found) -> list[PushMessage]:
    """Raises `ZulipError` for the first that its provider would not take."""
    bodies = [_body(index, push, row) for index, (push, row) in enumerate(found)]
    client_id, now = call.server.client_id, call.now
    return [
        push_of(row.subscription_id, client_id, body, now)
        for body, (_, row) in zip(bodies, found, strict=True)
        if row is not None
    ]


def _body(index: int, push: AskedPush, row: Subscription | None) -> Body:
    """Also of a push for which there is no device: what is wrong with it is wrong all the same."""
    try:
        body = push.body(row)
    except ValueError:
        raise _refused(index, "this priority does not go with this push type") from None
    if not any(fits(channel, body) for channel in ([Channel(row.channel)] if row else CHANNELS)):
        raise _refused(index, "too large")
    return body


def _refused(index: int, text: str) -> ZulipError:
    return ZulipError(ZulipCode.BAD_REQUEST, f"push {index}: {text}", {"index": index})


def _queue(call: ServerCall, messages: Sequence[PushMessage]) -> None:
    worker = call.worker
    urls = worker.settings.push_queues
    addressed = [(urls[message.channel], SqsMessage(message.to_json())) for message in messages]
    if any(sqs.send_to_queues(worker.sqs, addressed, worker.senders)):
        raise Problem(ProblemKind.UNAVAILABLE, "some pushes were not queued", headers={"Retry-After": "2"})
