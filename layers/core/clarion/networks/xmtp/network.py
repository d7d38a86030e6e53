"""XMTP behind the kernel's nouns. Envelopes, decisions, rules and payloads have modules of their own."""

from collections.abc import Collection

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, PushDecision, Wanted
from clarion.limiter import Limit
from clarion.messages import PushMessage
from clarion.networks import (
    XMTP,
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
from clarion.networks.xmtp import payload, rules
from clarion.networks.xmtp.decision import Reason, bytes_hashed, decide_message
from clarion.networks.xmtp.envelope import TopicMessage, decode

_REFUSED = {Reason.OWN_MESSAGE: Wanted.OWN_MESSAGE, Reason.NOT_PUSHABLE: Wanted.NOT_PUSHABLE}


class Xmtp(DeclaredNeeds):
    """Envelopes hold a `TopicMessage` as their content."""

    name = XMTP
    number = rules.NUMBER[0]
    channels = payload.CHANNELS
    limit: Limit | None = None
    secret_conditions = True
    signed = False
    additive = False
    body = payload.TopicBody
    body_of_row = None
    own_purposes = ()
    newest: Newest | None = None

    def decode(self, raw: bytes) -> Envelope:
        message = decode(raw)
        keys = rules.keys_of(message.topic)
        sender = message.sender if keys else None
        return Envelope(XMTP, message.id, keys, sender, message.expires_at, message)

    def verify(self, _envelope: Envelope) -> EnvelopeDecision | None:
        """Nothing is signed for servers: the node that showed an envelope is all that vouches for it."""
        return None

    def wants(self, envelope: Envelope, rule: Rule, _at: int) -> Wanted:
        condition = rules.read(rule.condition)
        reason = decide_message(_message(envelope), {} if rule.takes_own else condition.hmac_keys).reason
        return _REFUSED.get(reason) or (Wanted.BACKGROUND if condition.silent else Wanted.ALERT)

    def bytes_per_rule(self, envelope: Envelope) -> int:
        return bytes_hashed(_message(envelope))

    def may_want(self, envelope: Envelope) -> Collection[Wanted]:
        """If it has an HMAC, only keys can say whether it is an own message."""
        message = _message(envelope)
        refused = _REFUSED.get(decide_message(message, {}).reason)
        answers = {refused} if refused else {Wanted.ALERT, Wanted.BACKGROUND}
        metadata = message.push_metadata
        return answers | {Wanted.OWN_MESSAGE} if metadata and metadata.may_be_own else answers

    def push_body(self, envelope: Envelope, _key: bytes, channel: Channel) -> payload.TopicBody:
        return payload.body_of(_message(envelope), channel)

    def payload(self, channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
        return payload.compose(channel, push, receiver)

    def on_outcome(self, _push: PushMessage, _outcome: PushDecision, _answer: PushAnswer) -> Command | None:
        return None

    def describe(self, rule: Rule) -> dict[str, str]:
        return rules.describe(rule)


def _message(envelope: Envelope) -> TopicMessage:
    if not isinstance(envelope.content, TopicMessage):
        raise TypeError("no envelope of XMTP")
    return envelope.content


NETWORK = Xmtp()
