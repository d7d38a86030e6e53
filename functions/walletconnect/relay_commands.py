"""Requests and receipts of wallets, by the relay: opened, their sender authorized, served, answered.

Nothing of a request is logged but why it was refused.
"""

from dataclasses import dataclass

from aws_lambda_powertools import Logger

from clarion.clock import now_ms
from clarion.decisions import PushDecision
from clarion.metrics import decided
from clarion.networks import WALLETCONNECT
from clarion.networks.walletconnect import buckets
from clarion.networks.walletconnect.buckets import BucketSize
from clarion.networks.walletconnect.commands import RelayCommand
from clarion.networks.walletconnect.needs import REQUESTS_REFUSED
from clarion.networks.walletconnect.server_keys import ServerKeys
from clarion.networks.walletconnect.subscriptions import NotifySubscription, account_key
from clarion.networks.walletconnect.tags import ActName
from clarion.networks.walletconnect.topics import FollowedTopic, ending
from clarion.secrets import Secret
from walletconnect import rpc_messages, subscriber_messages
from walletconnect.accepted_tokens import accepted
from walletconnect.answer_tokens import answer_token
from walletconnect.authorization import authorize, profile_for
from walletconnect.key_server import KeyServerClient
from walletconnect.notify_commands import NotifyCommandHandler, welcome_for
from walletconnect.outbox import NotifyOutbox
from walletconnect.receipts import receive, received_event
from walletconnect.recipients import OpenedMessage, RequestRecipient, find_recipient, open_message
from walletconnect.refusals import UNANSWERED, NotServed, RefusalReason
from walletconnect.request_handlers import RequestHandlers, Served, WalletRequest
from walletconnect.requests import (
    RECEIPT_ACTS,
    RECEIPT_MEMBERS,
    RECEIPT_TAG,
    REQUESTS,
    RequestArrival,
    RequestKind,
)

logger = Logger(service=WALLETCONNECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayCommandHandler:
    """What fails raises, and the command is to be handled again. A welcome is one of the `notify_commands`."""

    keys: Secret[ServerKeys]
    key_servers: KeyServerClient
    handlers: RequestHandlers
    notify_commands: NotifyCommandHandler

    @property
    def outbox(self) -> NotifyOutbox:
        return self.notify_commands.outbox

    def handle(self, command: RelayCommand, at_ms: int, *, retried: bool = False) -> None:
        """`at_ms` is when it came, in UNIX milliseconds. `retried`: it was received before."""
        try:
            self._serve(command, RequestArrival.of(command, at_ms, retried=retried))
        except NotServed as refusal:
            self.outbox.counts[REQUESTS_REFUSED] += 1
            logger.info("refused", tag=command.tag, reason=refusal.reason, flaw=refusal.flaw)

    def _serve(self, command: RelayCommand, arrival: RequestArrival) -> None:
        recipient = find_recipient(command.topic, self.keys)
        if recipient is None:
            raise NotServed(RefusalReason.UNKNOWN_TOPIC)
        if command.tag == RECEIPT_TAG and recipient.subscription is not None:
            self._receive(recipient, recipient.subscription, open_message(command.message, recipient), arrival)
            return
        kind = REQUESTS.get(command.tag)
        if kind is None or kind.topic is not recipient.kind:
            raise NotServed(RefusalReason.UNKNOWN_REQUEST)
        message = open_message(command.message, recipient)
        if message.sender is not None and not arrival.retried:
            _take(kind.sender_bucket, message.sender.hex(), arrival.at_ms)
        self._answer(kind, recipient, message, arrival)

    def _answer(
        self, kind: RequestKind, recipient: RequestRecipient, message: OpenedMessage, arrival: RequestArrival
    ) -> None:
        try:
            request = self._authorized(kind, recipient, message, arrival)
            _take_of_authentic(kind, request)
            served = self.handlers.serve(kind.act, request, self.keys.get())
        except NotServed as refusal:
            if refusal.reason not in UNANSWERED:
                error = rpc_messages.error(kind.response_act, message.rpc_id, refusal.text, message.key)
                self.outbox.publish(error)
            raise
        token = answer_token(request.signed, kind.response_act, recipient, served.claims, served.at_ms)
        answer = rpc_messages.result(kind.response_act, message.rpc_id, {kind.answer: token}, message.key)
        # A client that is told of its subscription's end no longer reads the answer.
        self.outbox.publish(answer)
        self.outbox.publish(*served.others)
        self._finish(request, served)

    def _authorized(
        self, kind: RequestKind, recipient: RequestRecipient, message: OpenedMessage, arrival: RequestArrival
    ) -> WalletRequest:
        token = message.token(kind.member)
        profile = profile_for(token, kind.act)
        request = authorize(token, kind.act, recipient, arrival, profile=profile, key_servers=self.key_servers)
        return WalletRequest(recipient, message, request)

    def _finish(self, request: WalletRequest, served: Served) -> None:
        """Once the wallet has the answer, a topic that has ended is not followed any longer."""
        if served.ended is not None:
            FollowedTopic(served.ended).update(ending(now_ms()))
        if served.begun is not None and (welcome := welcome_for(request.app, served.begun, served.at_ms)):
            subscriber_messages.keep(welcome, self.notify_commands.domain)
            self.notify_commands.handle(welcome, retried=request.signed.arrival.retried)

    def _receive(
        self,
        recipient: RequestRecipient,
        subscription: NotifySubscription,
        message: OpenedMessage,
        arrival: RequestArrival,
    ) -> None:
        """A receipt is not answered."""
        token = message.token(*RECEIPT_MEMBERS)
        profile = profile_for(token, ActName.RECEIPT)
        request = authorize(
            token, RECEIPT_ACTS[profile], recipient, arrival, profile=profile, key_servers=self.key_servers
        )
        if row := receive(subscription.subscription_id, message.rpc_id, request):
            self.outbox.counts[decided(PushDecision.RECEIVED)] += 1
            self.outbox.events.add(received_event(subscription, row, arrival.at_ms))


def _take_of_authentic(kind: RequestKind, request: WalletRequest) -> None:
    """The tokens of topic and account, once however often the request comes. Raises `NotServed`."""
    signed, needs_tokens = request.signed, kind.topic_bucket or kind.account_bucket
    if needs_tokens and not signed.arrival.retried and accepted(signed) is None:
        _take(kind.topic_bucket, request.recipient.topic, signed.arrival.at_ms)
        _take(kind.account_bucket, account_key(signed.account), signed.arrival.at_ms)


def _take(bucket: BucketSize | None, whose: str, at_ms: int) -> None:
    """Raises `NotServed`."""
    if bucket is not None and not buckets.take(bucket, whose, at_ms):
        raise NotServed(RefusalReason.THROTTLED)
