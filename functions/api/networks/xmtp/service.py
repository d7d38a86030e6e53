"""The five calls of `notifications.v1.Notifications`.

An installation is a subscription, a topic one of its rules. Topics that no push can come from are passed over, since
the reference server takes them and pushes nothing for them either. As there, topics may come before the registration:
the subscription is then reserved, for a day.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from google.protobuf.message import Message
from pynamodb.transactions import TransactWrite

from api import registrations, rules, subscriptions
from api.networks.xmtp.arguments import by_rule_key, hmac_keys, newest_period, rule_keys
from api.networks.xmtp.codes import CallCode, CallError
from api.networks.xmtp.notifications_pb2 import (
    DeleteInstallationRequest,
    DeliveryMechanism,
    Empty,
    RegisterInstallationRequest,
    RegisterInstallationResponse,
    SubscribeRequest,
    SubscribeWithMetadataRequest,
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
from clarion.networks.xmtp.rules import pack, read
from clarion.networks.xmtp.sender_hmac import period_at
from clarion.rulesets import Owner
from clarion.subscriptions import ExtraWrites, Registration

APP_HEADER, ENVIRONMENT_HEADER = "clarion-app", "clarion-environment"
MISSING_MECHANISM = "missing delivery mechanism"
"""The reference server's words."""
_ABSENT = frozenset({ProblemKind.NO_SUBSCRIPTION, ProblemKind.SUBSCRIPTION_INVALID})
"""No installation, or one that has ended: there are no topics."""


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

    @property
    def most_topics(self) -> int:
        """In one call."""
        return self.worker.settings.rules_per_request

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
    registrations.put(call, registration, _writes_installation(subscription_id, installation_id, now))
    return RegisterInstallationResponse(installation_id=installation_id, valid_until=valid_until(now) * 1000)


def delete_installation(call: XmtpCall, message: DeleteInstallationRequest) -> Empty:
    """With its topics."""
    subscription_id = call.subscription_id(message.installation_id)
    with _passing_over_absent():
        subscriptions.remove(call, call.caller, [subscription_id])
    return Empty()


def subscribe(call: XmtpCall, message: SubscribeRequest) -> Empty:
    """What is subscribed to already stays silent or not, and keeps its keys as long as they serve."""
    subscription_id = call.subscription_id(message.installation_id)
    period, keys = period_at(call.now), rule_keys(message.topics, call.most_topics)

    def pruned(_: bytes, present: bytes | None) -> bytes:
        return pack(read(present or b"").pruned(period))

    _subscribe(call, message.installation_id, lambda: rules.renew(call, call.caller, subscription_id, keys, pruned))
    return Empty()


def subscribe_with_metadata(call: XmtpCall, message: SubscribeWithMetadataRequest) -> Empty:
    """Keys of other periods than those that are named stay as long as they serve.

    That there are keys is noted before they are stored: a crash in between leaves none that is never looked at.
    """
    subscription_id = call.subscription_id(message.installation_id)
    period, named = period_at(call.now), by_rule_key(message.subscriptions, call.most_topics)

    def renewed(key: bytes, present: bytes | None) -> bytes:
        condition = read(present or b"")
        for one in named[key]:
            condition = condition.renewed(hmac_keys(one), silent=one.is_silent, period=period)
        return pack(condition)

    newest = newest_period(named.values(), period)

    def change() -> None:
        if newest is not None:
            note_keys(subscription_id, message.installation_id, newest)
        rules.renew(call, call.caller, subscription_id, named, renewed)

    _subscribe(call, message.installation_id, change)
    return Empty()


def unsubscribe(call: XmtpCall, message: UnsubscribeRequest) -> Empty:
    """Topics that are not subscribed to are passed over, all of them if the installation has ended."""
    subscription_id = call.subscription_id(message.installation_id)
    keys = rule_keys(message.topics, call.most_topics)
    with _passing_over_absent():
        rules.discard(call, call.caller, subscription_id, keys)
    return Empty()


RPCS = {
    "RegisterInstallation": Rpc(RegisterInstallationRequest, register_installation),
    "DeleteInstallation": Rpc(DeleteInstallationRequest, delete_installation),
    "Subscribe": Rpc(SubscribeRequest, subscribe),
    "SubscribeWithMetadata": Rpc(SubscribeWithMetadataRequest, subscribe_with_metadata),
    "Unsubscribe": Rpc(UnsubscribeRequest, unsubscribe),
}
"""By the method's name."""


def _subscribe(call: XmtpCall, installation_id: str, change: Callable[[], object]) -> None:
    """Make the change of topics. If there is no such installation, it is reserved first; one that has ended is not."""
    try:
        change()
    except Problem as problem:
        if problem.kind not in _ABSENT:
            raise
        subscription_id = call.subscription_id(installation_id)
        # Which channel it will be of, its registration will say.
        registration = Registration(*call.caller, Channel.APNS, token="", subscription_id=subscription_id)
        registrations.reserve(call, registration, _writes_installation(subscription_id, installation_id, call.now))
        change()


def _writes_installation(subscription_id: str, installation_id: str, now: int) -> ExtraWrites:
    def write(transaction: TransactWrite) -> None:
        transaction.update(Installation(subscription_id), actions=registered(installation_id, now))

    return write


@contextmanager
def _passing_over_absent() -> Iterator[None]:
    """What is to go may be gone: the answer to an earlier attempt may have been lost."""
    try:
        yield
    except Problem as problem:
        if problem.kind not in _ABSENT:
            raise


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
