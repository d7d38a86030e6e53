"""WalletConnect behind the kernel's nouns. What wallets and dapps sign and seal has modules of its own."""

from collections.abc import Collection

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, PushDecision, Wanted
from clarion.limiter import Limit
from clarion.messages import PushMessage
from clarion.networks import (
    WALLETCONNECT,
    Command,
    DeclaredNeeds,
    Envelope,
    FcmMessage,
    Newest,
    Payload,
    PushAnswer,
    Receiver,
    Rule,
)
from clarion.networks.walletconnect import payload, rules, sealed
from clarion.networks.walletconnect.sealed import SealedNotification


class WalletConnect(DeclaredNeeds):
    """Envelopes hold a `SealedNotification` as their content; they come from the network's own worker."""

    name = WALLETCONNECT
    number = rules.NUMBER[0]
    channels = payload.CHANNELS
    limit: Limit | None = None
    secret_conditions = False
    signed = False
    additive = False
    body = payload.NotificationBody
    body_of_row = None
    own_purposes = ()
    newest: Newest | None = None

    def decode(self, raw: bytes) -> Envelope:
        found = sealed.read(raw)
        return Envelope(
            WALLETCONNECT, found.envelope_id, [rules.key_of(bytes.fromhex(found.topic))], None, found.expires_at, found
        )

    def verify(self, _envelope: Envelope) -> EnvelopeDecision | None:
        """The worker has made it: only its receiver can read what it signed."""
        return None

    def wants(self, envelope: Envelope, rule: Rule, _at: int) -> Wanted:
        in_scope = rules.takes(rule.condition, _notification(envelope).type)
        return Wanted.ALERT if in_scope else Wanted.NOT_IN_SCOPE

    def bytes_per_rule(self, _envelope: Envelope) -> int:
        return 0

    def may_want(self, _envelope: Envelope) -> Collection[Wanted]:
        return Wanted.ALERT, Wanted.NOT_IN_SCOPE

    def push_body(self, envelope: Envelope, _key: bytes, channel: Channel) -> payload.NotificationBody:
        return payload.body_of(_notification(envelope), channel)

    def payload(self, channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
        return payload.compose(channel, push, receiver)

    def on_outcome(self, _push: PushMessage, _outcome: PushDecision, _answer: PushAnswer) -> Command | None:
        return None

    def describe(self, rule: Rule) -> dict[str, str]:
        return rules.describe(rule)


def _notification(envelope: Envelope) -> SealedNotification:
    if not isinstance(envelope.content, SealedNotification):
        raise TypeError("no envelope of WalletConnect")
    return envelope.content


NETWORK = WalletConnect()
