"""A made-up network, which uses all that a network can: so that nothing in Clarion is shaped by statements alone.

An item is JSON. It is shown in rooms, a key is a room's name, and a condition says how its owner wants what is said
there, and by which secret its own sayings are known:

    {"rooms": ["hall"], "text": "hello", "author": "ann", "expires_at": 4294967295, "shown_at": 7}

The fixture `toy` of `tests/conftest.py` registers it.
"""

import json
from collections.abc import Collection
from hashlib import blake2b
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, PushDecision, Wanted
from clarion.limiter import Limit
from clarion.messages import PushMessage
from clarion.networks import Command, Envelope, FcmMessage, Malformed, Newest, Payload, PushAnswer, Receiver, Row, Rule
from clarion.networks.needs import AlarmNeed, Auth, Grant, Needs, Route, Table

TOY = "toy"
LATEST = "toy_latest"
"""By subscription: a room, and the latest of what was said there."""
NUMBER = b"\xff"
NEVER = 0xFFFF_FFFF
MOST_TEXTS = 6


class Saying(BaseModel):
    """What a raw item holds. `mark` proves to who has the secret that it is its own; `shown_at` is the node's alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rooms: tuple[str, ...]
    text: str
    author: str | None = None
    mark: str | None = None
    genuine: bool = True
    expires_at: int = NEVER
    shown_at: int = 0

    def to_raw(self) -> bytes:
        return self.model_dump_json().encode()


class ToyBody(BaseModel):
    """`room` is the one that the push is for."""

    model_config = ConfigDict(frozen=True)

    room: str
    text: str


class ToyCondition(NamedTuple):
    wanted: Wanted
    secret: bytes


def key_of(room: str) -> bytes:
    return NUMBER + room.encode()


def condition_of(wanted: Wanted, secret: bytes = b"a secret") -> bytes:
    return b":".join([wanted.value.encode(), secret])


def rule_of(room: str, wanted: Wanted = Wanted.ALERT, secret: bytes = b"a secret") -> Rule:
    return Rule(key_of(room), condition_of(wanted, secret))


def mark_of(secret: bytes, text: str) -> str:
    """What an author sends along to recognise its own saying by."""
    return blake2b(text.encode(), key=secret, digest_size=16).hexdigest()


class Toy:
    """Envelopes hold a `Saying` as their content."""

    name = TOY
    number = NUMBER[0]
    channels = tuple(Channel)
    limit: Limit | None = None
    secret_conditions = True
    signed = True
    additive = False
    body = ToyBody
    own_purposes = ()
    newest: Newest | None = None
    needs = Needs(
        tables=(
            Table("toys", ("toy_id", "S")),
            Table("toy_parts", ("toy_id", "S"), ("part", "N")),
            Table(LATEST, ("subscription_id", "S")),
        ),
        secrets=("toy-key",),
        routes=(
            Route("POST", "/v1/toys", Auth.CLIENT),
            Route("POST", "/v1/toys/parts", Auth.SERVER),
            Route("GET", "/v1/toys.json", Auth.PUBLIC),
        ),
        request_headers=("toy-size",),
        grants=(Grant("toys", ("GetItem", "PutItem")), Grant("toy_parts", ("Query",))),
        alarms=(AlarmNeed("toys_broken", 3, "A toy is broken."),),
        router="toy.router.handler",
        worker="toy.worker.handler",
        body_table=LATEST,
    )

    def decode(self, raw: bytes) -> Envelope:
        try:
            saying = Saying.model_validate_json(raw)
        except ValidationError:
            raise Malformed("no saying") from None
        lasting = saying.model_copy(update={"shown_at": 0})
        return Envelope(
            TOY,
            blake2b(lasting.to_raw(), digest_size=32).digest(),
            [key_of(room) for room in dict.fromkeys(saying.rooms)],
            saying.author.encode() if saying.author else None,
            saying.expires_at,
            saying,
        )

    def verify(self, envelope: Envelope) -> EnvelopeDecision | None:
        return None if _saying(envelope).genuine else EnvelopeDecision.BAD_SIGNATURE

    def wants(self, envelope: Envelope, rule: Rule, _at: int) -> Wanted:
        wanted, secret = _condition(rule)
        saying = _saying(envelope)
        is_own = saying.mark == mark_of(secret, saying.text)
        return Wanted.OWN_MESSAGE if is_own and not rule.takes_own else wanted

    def bytes_per_rule(self, envelope: Envelope) -> int:
        return len(_saying(envelope).text)

    def may_want(self, _envelope: Envelope) -> Collection[Wanted]:
        return tuple(Wanted)

    def push_body(self, envelope: Envelope, key: bytes, _channel: Channel) -> ToyBody:
        return ToyBody(room=_room(key), text=_saying(envelope).text)

    def body_of_row(self, _push: PushMessage, row: Row) -> ToyBody | None:
        """As much of it as fits, the newest at the end."""
        texts = row["texts"][-MOST_TEXTS:]
        return ToyBody(room=row["room"], text="\n".join(texts)) if texts else None

    def payload(self, channel: Channel, push: PushMessage, receiver: Receiver) -> Payload[bytes] | Payload[FcmMessage]:
        body = push.body
        if not isinstance(body, ToyBody):
            raise TypeError("no push of the toy network")
        whole = {"room": body.room, "text": body.text}
        truncated = len(json.dumps(whole)) > receiver.payload_bytes
        data = {"room": body.room} if truncated else whole
        if channel is Channel.FCM:
            return Payload(FcmMessage(data=data, android={}), truncated)
        content = {"aps": {"alert": {"title": receiver.title}}, **data}
        return Payload(json.dumps(content).encode(), truncated)

    def on_outcome(self, push: PushMessage, outcome: PushDecision, _answer: PushAnswer) -> Command | None:
        if outcome is PushDecision.TOKEN_GONE:
            return Command(TOY, b"gone:" + str(push.subscription_id).encode())
        return None

    def describe(self, rule: Rule) -> dict[str, str]:
        """Without the condition, which holds a secret."""
        return {"room": _room(rule.key)}


def _condition(rule: Rule) -> ToyCondition:
    """Without a condition, everything is wanted as an alert."""
    word, _, secret = (rule.condition or condition_of(Wanted.ALERT)).partition(b":")
    return ToyCondition(Wanted(word.decode()), secret)


def _room(key: bytes) -> str:
    return key.removeprefix(NUMBER).decode()


def _saying(envelope: Envelope) -> Saying:
    if not isinstance(envelope.content, Saying):
        raise TypeError("no envelope of the toy network")
    return envelope.content


def say(text: str, *rooms: str, author: str | None = None, mark: str | None = None) -> bytes:
    """A raw item."""
    return Saying(rooms=rooms or ("hall",), text=text, author=author, mark=mark).to_raw()


NETWORK = Toy()
