"""Zulip behind the kernel's nouns. Servers hand over pushes for devices: there are no envelopes, and so no rules."""

from collections.abc import Collection

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, PushDecision, Wanted
from clarion.limiter import Limit
from clarion.messages import PushMessage
from clarion.networks import (
    ZULIP,
    Command,
    DeclaredNeeds,
    Envelope,
    FcmMessage,
    Malformed,
    Newest,
    Payload,
    PushAnswer,
    Receiver,
    Rule,
)
from clarion.networks.zulip import payload


class Zulip(DeclaredNeeds):
    """Its devices are subscriptions without rules; its router puts their pushes on the channels' queues."""

    name = ZULIP
    number = 3
    channels = payload.CHANNELS
    limit: Limit | None = None
    secret_conditions = False
    signed = False
    additive = True
    body = payload.ZulipBody
    body_of_row = None
    own_purposes = ()
    newest: Newest | None = None

    def decode(self, _raw: bytes) -> Envelope:
        raise Malformed("Zulip shows no envelopes")

    def verify(self, _envelope: Envelope) -> EnvelopeDecision | None:
        return None

    def wants(self, _envelope: Envelope, _rule: Rule, _at: int) -> Wanted:
        return Wanted.NOT_PUSHABLE

    def bytes_per_rule(self, _envelope: Envelope) -> int:
        return 0

    def may_want(self, _envelope: Envelope) -> Collection[Wanted]:
        return (Wanted.NOT_PUSHABLE,)

    def push_body(self, _envelope: Envelope, _key: bytes, _channel: Channel) -> payload.ZulipBody:
        raise TypeError("no envelope of Zulip")

    def payload(self, channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
        return payload.payload(channel, push, receiver)

    def on_outcome(self, _push: PushMessage, _outcome: PushDecision, _answer: PushAnswer) -> Command | None:
        return None

    def describe(self, _rule: Rule) -> dict[str, str]:
        return {}


NETWORK = Zulip()
