"""`push/e2ee/notify`: pushes for devices of one realm, put on the channels' queues.

Either all that can be sent is queued, or the answer is an error: a server that keeps what it has sealed, and then asks
again, repeats the same pushes, with the same ids. Zulip 12 gives a message up after any error. Counts are of what is
queued. Devices that are unknown, have ended, or are of another kind are named,
for the server to forget. A push beyond what its token gets in a minute is in neither: its server keeps the device, and
does not try again.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from api import quotas
from api.networks.zulip.call import ServerCall
from api.networks.zulip.devices import active_devices, named_as_ended
from api.networks.zulip.errors import ZulipCode, ZulipError
from api.networks.zulip.pushes import AskedPush, PushArguments
from api.problems import Problem, ProblemKind
from api.quotas import Rate
from api.token_quota import quota_of
from clarion import sqs
from clarion.channels import CHANNELS as SPECS
from clarion.channels import Channel
from clarion.messages import PushMessage
from clarion.networks.zulip.needs import PUSHES_BEYOND_LIMIT
from clarion.networks.zulip.payload import CHANNELS, Body, fits, push_of
from clarion.sqs import SqsMessage
from clarion.tables import Subscription

CAN_PUSH = {"can_push": True, "expected_end_timestamp": None}
"""A realm's push status, in Zulip's words: for as long as it is registered."""

SENDS = 2

type Found = Sequence[tuple[AskedPush, Subscription | None]]
"""What is asked for, with its device; None if that is unknown, has ended, or is of another kind."""


def notify(call: ServerCall) -> Mapping[str, Any]:
    asked = call.body(PushArguments)
    call.realm(asked.realm_uuid)
    _within_allowance(call, len(asked.pushes))
    found = _found(call, asked)
    messages = _within_token_quotas(call, _messages(call, asked, found))
    _queue(call, messages)
    queued = Counter(message.channel for message in messages)
    return {
        "apple_successfully_sent_count": queued[Channel.APNS],
        "android_successfully_sent_count": queued[Channel.FCM],
        "realm_push_status": CAN_PUSH,
        **named_as_ended(asked.profile, dict.fromkeys(push.name for push, row in found if row is None)),
    }


def _within_allowance(call: ServerCall, pushes: int) -> None:
    limit, name = call.pushes_a_minute, f"zulip_pushes:{call.server.server_uuid}"
    quotas.require(name, Rate(limit, 60), call.now, f"at most {limit} pushes a minute", pushes)


def _found(call: ServerCall, asked: PushArguments) -> Found:
    ids = [push.subscription_id(call.server_uuid, asked.realm_uuid) for push in asked.pushes]
    rows = active_devices(call.server, asked.realm_uuid, asked.profile, ids)
    found = zip(asked.pushes, map(rows.get, ids), strict=True)
    return [(push, row if row is not None and push.suits(row) else None) for push, row in found]


def _messages(call: ServerCall, asked: PushArguments, found: Found) -> Sequence[tuple[str, PushMessage]]:
    """Each with its token's quota. Raises `ZulipError` for the first that its provider would not take."""
    bodies = [_body(asked, index, push, row) for index, (push, row) in enumerate(found)]
    client_id, now = call.server.client_id, call.now
    return [
        (quota_of(Channel(row.channel), row.token), push_of(row.subscription_id, client_id, body, now))
        for body, (_, row) in zip(bodies, found, strict=True)
        if row is not None
    ]


def _within_token_quotas(call: ServerCall, messages: Sequence[tuple[str, PushMessage]]) -> list[PushMessage]:
    """Without all those for a token that has not so many left."""
    worker = call.worker
    amounts = Counter(quota for quota, _ in messages)
    limit = worker.settings.pushes_per_token_per_minute
    refused = worker.allowances.refused(amounts, limit, call.now, worker.senders)
    if refused:
        worker.count(PUSHES_BEYOND_LIMIT, sum(amounts[quota] for quota in refused))
    return [message for quota, message in messages if quota not in refused]


def _body(asked: PushArguments, index: int, push: AskedPush, row: Subscription | None) -> Body:
    """Also of a push for which there is no device: what is wrong with it is wrong all the same."""
    try:
        body = push.body(row)
    except ValueError:
        raise _refused(asked, index, "this priority does not go with this push type") from None
    channels = [Channel(row.channel)] if row else CHANNELS
    if not any(fits(channel, body) for channel in channels):
        most = max(SPECS[channel].payload_bytes for channel in channels)
        raise _refused(asked, index, f"its payload would have more than {most} bytes")
    return body


def _refused(asked: PushArguments, index: int, text: str) -> ZulipError:
    return ZulipError(ZulipCode.BAD_REQUEST, f"{asked.list_name}[{index}]: {text}", {"index": index})


def _queue(call: ServerCall, messages: Sequence[PushMessage]) -> None:
    """What a queue does not take is sent once more. Raises `Problem` if something is left."""
    urls = call.worker.settings.push_queues
    left = [(urls[message.channel], SqsMessage(message.to_json())) for message in messages]
    for _ in range(SENDS):
        if left and monotonic() < call.until:
            refusals = sqs.send_to_queues(call.worker.sqs, left, call.worker.senders)
            left = [one for one, refusal in zip(left, refusals, strict=True) if refusal]
    if left:
        raise Problem(ProblemKind.UNAVAILABLE, "some pushes were not queued", headers={"Retry-After": "2"})
