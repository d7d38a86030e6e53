"""The statement store behind the kernel's nouns. The wire format, signatures, rules and payloads have modules of their own."""

from collections.abc import Collection

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, PushDecision, Wanted
from clarion.limiter import Limit
from clarion.messages import PushMessage
from clarion.networks import (
    STATEMENTS,
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
from clarion.networks.statements import codec, payload, rules
from clarion.networks.statements.codec import ProofKind, Statement
from clarion.networks.statements.signature import verify


class Statements(DeclaredNeeds):
    """Envelopes hold a `Statement` as their content."""

    name = STATEMENTS
    number = rules.NUMBER[0]
    channels = payload.CHANNELS
    limit = Limit(count=30, window=60_000, cooldown=120_000)
    secret_conditions = False
    signed = True
    additive = False
    body = payload.StatementBody
    body_of_row = None
    own_purposes = ()
    newest: Newest | None = None

    def decode(self, raw: bytes) -> Envelope:
        statement = codec.decode(raw)
        sender = statement.signer
        keys = rules.keys_of(sender, statement.topics) if sender else []
        return Envelope(STATEMENTS, codec.digest(raw), keys, sender, statement.expires_at, statement)

    def verify(self, envelope: Envelope) -> EnvelopeDecision | None:
        statement = _statement(envelope)
        if verify(statement):
            return None
        supported = statement.proof is not None and statement.proof.kind is ProofKind.SR25519
        return EnvelopeDecision.BAD_SIGNATURE if supported else EnvelopeDecision.UNSUPPORTED_PROOF

    def wants(self, _envelope: Envelope, rule: Rule, _at: int) -> Wanted:
        return rules.wanted(rule)

    def bytes_per_rule(self, _envelope: Envelope) -> int:
        return 0

    def may_want(self, _envelope: Envelope) -> Collection[Wanted]:
        return Wanted.CALL, Wanted.ALERT

    def push_body(self, envelope: Envelope, key: bytes, _channel: Channel) -> payload.StatementBody:
        return payload.body_of(_statement(envelope), *rules.split_key(key))

    def payload(self, channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
        return payload.compose(channel, push, receiver)

    def on_outcome(self, _push: PushMessage, _outcome: PushDecision, _answer: PushAnswer) -> Command | None:
        return None

    def describe(self, rule: Rule) -> dict[str, str]:
        return rules.describe(rule)


def _statement(envelope: Envelope) -> Statement:
    if not isinstance(envelope.content, Statement):
        raise TypeError("no envelope of the statement store")
    return envelope.content


NETWORK = Statements()
