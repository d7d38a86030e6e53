"""SimpleX behind the kernel's nouns. What agents and SMP servers send has modules of its own.

The pipeline reads envelopes, in an environment without the libraries that encrypt: so what composes payloads is imported
when it is first asked for.
"""

from collections.abc import Collection

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, Purpose, PushDecision, Wanted
from clarion.limiter import Limit
from clarion.messages import PushMessage
from clarion.networks import (
    SIMPLEX,
    Command,
    DeclaredNeeds,
    Envelope,
    FcmMessage,
    Newest,
    Payload,
    PushAnswer,
    Receiver,
    Row,
    Rule,
)
from clarion.networks.simplex import commands, envelope, rules
from clarion.networks.simplex.bodies import NEWEST, NewestItems, body_of, queue_message


class Simplex(DeclaredNeeds):
    """Envelopes hold a `QueueMessage` as their content. Its tokens are proven by a protocol of its own."""

    name = SIMPLEX
    number = rules.NUMBER[0]
    channels = (Channel.APNS,)
    limit: Limit | None = Limit(count=30, window=60_000, cooldown=120_000)
    secret_conditions = False
    signed = False
    additive = True
    body = NewestItems
    own_purposes = frozenset({Purpose.VERIFICATION, Purpose.WAKE_UP})
    newest: Newest | None = NEWEST

    def decode(self, raw: bytes) -> Envelope:
        message = envelope.decode(raw)
        of_queue = message.queue_key
        return Envelope(SIMPLEX, message.id, [rules.key_of(of_queue)], of_queue, message.expires_at, message)

    def verify(self, _envelope: Envelope) -> EnvelopeDecision | None:
        """The session with the queue's server is all that vouches for it."""
        return None

    def wants(self, _envelope: Envelope, _rule: Rule, _at: int) -> Wanted:
        return Wanted.ALERT

    def bytes_per_rule(self, _envelope: Envelope) -> int:
        return 0

    def may_want(self, _envelope: Envelope) -> Collection[Wanted]:
        return (Wanted.ALERT,)

    def push_body(self, envelope: Envelope, _key: bytes, _channel: Channel) -> NewestItems:
        return NewestItems(messages=(queue_message(envelope).raw,))

    def body_of_row(self, _push: PushMessage, row: Row) -> NewestItems | None:
        return body_of(row)

    def payload(self, channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
        from clarion.networks.simplex.composing import compose  # noqa: PLC0415 - as said above

        return compose(channel, push, receiver)

    def on_outcome(self, push: PushMessage, outcome: PushDecision, answer: PushAnswer) -> Command | None:
        return commands.of_outcome(push, outcome, answer)

    def describe(self, rule: Rule) -> dict[str, str]:
        return rules.describe(rule)


NETWORK = Simplex()
