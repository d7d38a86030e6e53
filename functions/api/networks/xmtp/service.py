"""The five calls of `notifications.v1.Notifications`.

An installation is a subscription, a topic one of its rules. Topics that no push can come from are passed over, since
the reference server takes them and pushes nothing for them either.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from google.protobuf.message import Message
from pynamodb.transactions import TransactWrite

from api import registrations, rules, subscriptions
from api.networks.xmtp.codecs import MOST_KEYS
from api.networks.xmtp.codes import CallCode, CallError
from api.networks.xmtp.notifications_pb2 import (
    DeleteInstallationRequest,
    DeliveryMechanism,
    Empty,
    RegisterInstallationRequest,
    RegisterInstallationResponse,
    SubscribeRequest,
    SubscribeWithMetadataRequest,
    Subscription,
    UnsubscribeRequest,
)
from api.networks.xmtp.protocols import Headers
from api.networks.xmtp.settings import XmtpSettings
from api.problems import Problem, ProblemKind
from api.worker import ClientRequest, ClientWorker
from clarion.addresses import MAX_INSTALLATION_ID_BYTES, WebhookAddress, canonical
from clarion.channels import Channel
from clarion.decisions import Environment
from clarion.networks import XMTP
from clarion.networks.xmtp.installations import (
    Installation,
    note_keys,
    registered,
    subscription_id_of,
    valid_until,
)
from clarion.networks.xmtp.rules import NOTHING, key_of, pack, read
from clarion.networks.xmtp.sender_hmac import period_at
from clarion.networks.xmtp.topics import MAX_TOPIC_SIZE, MessageKind, kind_of
from clarion.rulesets import Owner
from clarion.subscriptions import Registration

APP_HEADER, ENVIRONMENT_HEADER = "clarion-app", "clarion-environment"
MISSING_MECHANISM = "missing delivery mechanism"
"""The reference server's words."""


@dataclass(frozen=True, slots=True)
class XmtpWorker(ClientWorker):
    """What one instance of the router keeps."""

    settings: XmtpSettings


@dataclass(frozen=True, slots=True)
class XmtpCall(ClientRequest):
    """A call being answered, with its headers."""

    worker: XmtpWorker
    headers: Headers = field(repr=False)
    """The caller's bearer token is among them."""

    @property
    def caller(self) -> Owner:
        return self.owner(XMTP)

    @property
    def now(self) -> int:
        """UNIX seconds."""
        return self.worker.now() // 1000

    def subscription_id(self, installation_id: str) -> str:
        """Raises `CallError` for what can't be an installation's name."""
        if not 0 < len(installation_id.encode()) <= MAX_INSTALLATION_ID_BYTES:
            text = f"installation_id must have 1 to {MAX_INSTALLATION_ID_BYTES} bytes"
            raise CallError(CallCode.INVALID_ARGUMENT, text)
        return subscription_id_of(self.caller.client_id, installation_id)


class Rpc(NamedTuple):
    """A method: what it is called with, and what answers."""

    request: type[Message]
    answer: Callable[[XmtpCall, Any], Message]


def register_installation(call: XmtpCall, message: RegisterInstallationRequest) -> RegisterInstallationResponse:
    """Again, it renews the registration, with the token that it now has; topics and keys stay."""
    installation_id, now = message.installation_id, call.now
    subscription_id = call.subscription_id(installation_id)
    channel, token = _address(call, installation_id, message.delivery_mechanism)
    app = call.headers.get(APP_HEADER)
    registration = Registration(*call.caller, channel, token, app, _environment(call), subscription_id)

    def extra_writes(transaction: TransactWrite) -> None:
        transaction.update(Installation(subscription_id), actions=registered(installation_id, now))

    registrations.put(call, registration, extra_writes)
    return RegisterInstallationResponse(installation_id=installation_id, valid_until=valid_until(now) * 1000)


def delete_installation(call: XmtpCall, message: DeleteInstallationRequest) -> Empty:
    """One that is not there is no error: the answer to an earlier attempt may have been lost."""
    subscription_id = call.subscription_id(message.installation_id)
    try:
        subscriptions.remove(
            call, call.caller, [subscription_id], lambda transaction: transaction.delete(Installation(subscription_id))
        )
    except Problem as problem:
        if problem.kind is not ProblemKind.NO_SUBSCRIPTION:
            raise
    return Empty()


def subscribe(call: XmtpCall, message: SubscribeRequest) -> Empty:
    """What is subscribed to already stays silent or not, and keeps its keys as long as they serve."""
    subscription_id = call.subscription_id(message.installation_id)
    period, keys = period_at(call.now), _keys(call, message.topics)

    def pruned(_: bytes, present: bytes | None) -> bytes:
        return pack(read(present or b"").pruned(period))

    rules.renew(call, call.caller, subscription_id, keys, pruned)
    return Empty()


def subscribe_with_metadata(call: XmtpCall, message: SubscribeWithMetadataRequest) -> Empty:
    """Keys of other periods than those that are named stay as long as they serve."""
    subscription_id = call.subscription_id(message.installation_id)
    period, named = period_at(call.now), _named(call, message.subscriptions)

    def renewed(key: bytes, present: bytes | None) -> bytes:
        condition = read(present or b"")
        for one in named[key]:
            condition = condition.renewed(_hmac_keys(one), silent=one.is_silent, period=period)
        return pack(condition)

    rules.renew(call, call.caller, subscription_id, named, renewed)
    newest = _newest(named.values(), period)
    if newest is not None:
        note_keys(subscription_id, message.installation_id, newest)
    return Empty()


def unsubscribe(call: XmtpCall, message: UnsubscribeRequest) -> Empty:
    """Topics that are not subscribed to are passed over."""
    subscription_id = call.subscription_id(message.installation_id)
    rules.discard(call, call.caller, subscription_id, _keys(call, message.topics))
    return Empty()


RPCS = {
    "RegisterInstallation": Rpc(RegisterInstallationRequest, register_installation),
    "DeleteInstallation": Rpc(DeleteInstallationRequest, delete_installation),
    "Subscribe": Rpc(SubscribeRequest, subscribe),
    "SubscribeWithMetadata": Rpc(SubscribeWithMetadataRequest, subscribe_with_metadata),
    "Unsubscribe": Rpc(UnsubscribeRequest, unsubscribe),
}
"""By the method's name."""


def _address(call: XmtpCall, installation_id: str, mechanism: DeliveryMechanism) -> tuple[Channel, str]:
    """The channel and the address as it is stored; raises `CallError`."""
    try:
        match mechanism.WhichOneof("delivery_mechanism_type"):
            case "apns_device_token":
                return Channel.APNS, canonical(Channel.APNS, mechanism.apns_device_token)
            case "firebase_device_token":
                return Channel.FCM, canonical(Channel.FCM, mechanism.firebase_device_token)
            case "custom_token":
                client, token = call.caller.client_id.hex(), mechanism.custom_token
                return Channel.WEBHOOK, WebhookAddress(client=client, installation_id=installation_id, token=token).text
            case _:
                raise CallError(CallCode.INVALID_ARGUMENT, MISSING_MECHANISM)
    except ValueError:
        raise CallError(CallCode.INVALID_ARGUMENT, "the token is none of its delivery mechanism") from None


def _environment(call: XmtpCall) -> Environment | None:
    named = call.headers.get(ENVIRONMENT_HEADER)
    if named is None:
        return call.worker.settings.environment
    with suppress(ValueError):
        return Environment(named)
    raise CallError(CallCode.INVALID_ARGUMENT, f"{ENVIRONMENT_HEADER} must be one of {', '.join(Environment)}")


def _check_count(call: XmtpCall, named: Sequence[object]) -> None:
    """Before anything is made of them: a message has room for a million."""
    limit = call.worker.settings.rules_per_request
    if len(named) > limit:
        raise CallError(CallCode.INVALID_ARGUMENT, f"at most {limit} topics in one call")


def _keys(call: XmtpCall, topics: Sequence[str]) -> list[bytes]:
    """Of the rules for those of `topics` that pushes come from, each once."""
    _check_count(call, topics)
    if any(len(topic.encode()) > MAX_TOPIC_SIZE for topic in topics):
        raise CallError(CallCode.INVALID_ARGUMENT, f"a topic has at most {MAX_TOPIC_SIZE} bytes")
    return [key_of(topic) for topic in dict.fromkeys(topics) if kind_of(topic) is not MessageKind.UNKNOWN]


def _named(call: XmtpCall, named: Sequence[Subscription]) -> Mapping[bytes, Sequence[Subscription]]:
    """By the rule's key; a topic may stand there more than once, and the last word counts."""
    _check_count(call, named)
    keys = _keys(call, [one.topic for one in named])
    if any(len(one.hmac_keys) > MOST_KEYS for one in named):
        raise CallError(CallCode.INVALID_ARGUMENT, f"at most {MOST_KEYS} keys for one topic in one call")
    by_key = defaultdict[bytes, list[Subscription]](list)
    for one in named:
        by_key[key_of(one.topic)].append(one)
    return {key: by_key[key] for key in keys}


def _hmac_keys(one: Subscription) -> dict[int, bytes]:
    return {key.thirty_day_periods_since_epoch: key.key for key in one.hmac_keys}


def _newest(named: Iterable[Sequence[Subscription]], period: int) -> int | None:
    """The newest period that a usable key is for."""
    conditions = (
        NOTHING.renewed(_hmac_keys(one), silent=False, period=period) for of_topic in named for one in of_topic
    )
    return max((number for condition in conditions for number in condition.hmac_keys), default=None)
