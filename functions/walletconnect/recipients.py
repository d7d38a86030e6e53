"""Whom a topic of the relay belongs to, and what was sent to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clarion.networks.walletconnect.did import domain_did, public_did
from clarion.networks.walletconnect.envelope import UnreadableEnvelope, open_first, open_sealed, topic_of
from clarion.networks.walletconnect.projects import DappApp, find_app
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.subscriptions import NotifySubscription, find_notify_subscription
from clarion.networks.walletconnect.topics import TopicKind, find_topic, split_ref
from clarion.secrets import Secret
from walletconnect.refusals import NotServed, RefusalReason
from walletconnect.rpc_messages import RpcId


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecipient:
    """An app, or the Notify server itself, which has no `app`. A subscription's topic leads to its app.

    First messages are opened with `agreement_key`; answers are signed with `signing_key`.
    """

    agreement_key: X25519PrivateKey = field(repr=False)
    signing_key: Ed25519PrivateKey = field(repr=False)
    app: DappApp | None = None
    subscription: NotifySubscription | None = None

    @property
    def kind(self) -> TopicKind:
        if self.subscription is not None:
            return TopicKind.SUBSCRIPTION
        return TopicKind.SERVER if self.app is None else TopicKind.APP

    @property
    def topic(self) -> str:
        """Where requests to it come."""
        if self.subscription is not None:
            return str(self.subscription.topic)
        return topic_of(self.agreement_key.public_key().public_bytes_raw())

    @property
    def did(self) -> str:
        """What requests name as their audience."""
        return public_did(self.signing_key)

    @property
    def domain(self) -> str | None:
        return self.app.app if self.app else None

    @property
    def app_did(self) -> str | None:
        return domain_did(self.app.app) if self.app else None


class _RpcMessage(BaseModel):
    """A request has `params`, an answer a `result`."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    id: int | Annotated[str, Field(max_length=100)]
    params: dict[str, object] = Field(default_factory=dict)
    result: dict[str, object] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMessage:
    """`key` is the one that the answer goes under; `sender` is the key of whoever sent a first message."""

    rpc_id: RpcId
    members: Mapping[str, object] = field(repr=False)
    key: bytes = field(repr=False)
    sender: bytes | None = None

    def token(self, *names: str) -> str:
        """What the member of one of these names holds. Raises `NotServed`."""
        match [self.members[name] for name in names if name in self.members]:
            case [str(token)]:
                return token
        raise NotServed(RefusalReason.UNREADABLE)


def find_recipient(topic: str, keys: Secret[ServerKeys]) -> RequestRecipient | None:
    """None if the topic is nobody's, a subscription's that has another by now, or the server's by keys it had before."""
    if server := _server(topic, keys.get()):
        return server
    row = find_topic(topic)
    if row is None:
        return None
    if row.kind == TopicKind.SERVER:
        # The keys have been rotated lately: the topic is followed as soon as the secret has them.
        return _server(topic, keys.reread())
    domain, account = split_ref(row.ref)
    app, subscription = find_app(domain), find_notify_subscription(domain, account) if account else None
    if app is None:
        raise LookupError("an app whose row is yet to be seen by all")
    if account and (subscription is None or subscription.topic != topic):
        return None
    return recipient_of(app, subscription)


def _server(topic: str, keys: ServerKeys) -> RequestRecipient | None:
    """The Notify server, if the topic is that of its keys."""
    if topic != keys.watch_topic:
        return None
    return RequestRecipient(agreement_key=keys.subscribe, signing_key=keys.authentication)


def recipient_of(app: DappApp, subscription: NotifySubscription | None = None) -> RequestRecipient:
    return RequestRecipient(
        agreement_key=X25519PrivateKey.from_private_bytes(app.subscribe_key),
        signing_key=Ed25519PrivateKey.from_private_bytes(app.authentication_key),
        app=app,
        subscription=subscription,
    )


def open_message(message: str, recipient: RequestRecipient) -> OpenedMessage:
    """Raises `NotServed`."""
    try:
        return _opened(message, recipient)
    except (UnreadableEnvelope, ValidationError):
        raise NotServed(RefusalReason.UNREADABLE) from None


def _opened(message: str, recipient: RequestRecipient) -> OpenedMessage:
    if recipient.subscription is not None:
        key = recipient.subscription.sym_key
        content, sender = open_sealed(message, key), None
    else:
        first = open_first(message, recipient.agreement_key)
        content, key, sender = first.content, first.key, first.sender
    read = _RpcMessage.model_validate_json(content)
    return OpenedMessage(rpc_id=read.id, members=read.params | read.result, key=key, sender=sender)
