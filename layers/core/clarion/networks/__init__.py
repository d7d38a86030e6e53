"""What Clarion knows of any network: the nouns that every component works with, and the registry of networks.

    raw ──decode──▶ Envelope ──verify──▶ its keys ──by_key──▶ Rules ──wants──▶ PushMessage ──payload──▶ Payload
        (source)                                    (tables)                   (queue)                (provider)

A network is a package that says what is particular to it, by one object with the attributes of `Network`. Components ask
`network(name)` for it and know no other way; a network's module is imported when it is first asked for. All methods are
pure: what reaches AWS is done by the components, with what `Needs` asks of the account. To add one: docs/architecture.md.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, Protocol, TypedDict

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, Purpose, PushDecision, SubscriptionStatus, Wanted
from clarion.limiter import Limit

if TYPE_CHECKING:
    from pydantic import BaseModel

    from clarion.messages import PushMessage
    from clarion.networks.needs import Needs
    from clarion.secrets import SharedSecret

ID_BYTES = 32
STATEMENTS = "statements"
XMTP = "xmtp"
ZULIP = "zulip"
WALLETCONNECT = "walletconnect"
SIMPLEX = "simplex"
NETWORKS = {
    STATEMENTS: "clarion.networks.statements.network",
    XMTP: "clarion.networks.xmtp.network",
    ZULIP: "clarion.networks.zulip.network",
    WALLETCONNECT: "clarion.networks.walletconnect.network",
    SIMPLEX: "clarion.networks.simplex.network",
}
"""By a network's name, the module whose `NETWORK` speaks for it."""


class Malformed(ValueError):  # noqa: N818 - it names what was received, as the decision `malformed` does
    """The bytes are nothing that the network may show. The text holds nothing of them."""


class Envelope(NamedTuple):
    """One item as a network showed it, decoded.

    `id` has 32 bytes and holds nothing that a single node assigns: duplicates are known by it. `keys` are what rules may
    name, each once, the most specific first; each begins with the network's number. `sender` is whom the limit is
    counted for, if anybody. `expires_at` is in UNIX seconds. `content` is the network's own object.
    """

    network: str
    id: bytes
    keys: Sequence[bytes]
    sender: bytes | None
    expires_at: int
    content: object


class Rule(NamedTuple):
    """What a subscription asks for: a key, and a condition that the network alone can read. Empty: none.

    With `takes_own`, its app has own messages delivered: then they are wanted as any other.
    """

    key: bytes
    condition: bytes = b""
    takes_own: bool = False


class Command(NamedTuple):
    """An order to a network's own function, by way of its queue of commands: from a source, or from an outcome."""

    network: str
    content: bytes


class Receiver(NamedTuple):
    """Whom a payload is composed for. `title` is the app's for its alerts, `payload_bytes` the most that is received.

    `began_at` and `network_data` are the subscription's; `secret` is the network's `payload_secret`, if it has one.
    """

    title: str
    payload_bytes: int
    began_at: int = 0
    network_data: bytes | None = None
    secret: "SharedSecret | None" = None


class Newest(NamedTuple):
    """How a network's pushes report the newest items of a subscription, as `clarion.newest` keeps them."""

    most: int
    """Items of a push."""
    kept: int
    """Items of a row; where several are recorded at once, up to twice as many."""
    delay_seconds: int
    """After which a push goes out, with what came meanwhile."""
    life_seconds: int
    """How long a row is kept after its last item."""
    name_of: Callable[[Envelope], str]
    """A few letters and digits. Of two items with the same name the later one replaces the other."""
    raw_of: Callable[[Envelope], bytes]
    """The item, as it is kept."""
    group_of: Callable[[bytes], Hashable]
    """Whose an item is: each group has its turn."""
    fitting: Callable[[Sequence[bytes]], Collection[bytes]]
    """Those of some items that one push has room for, the first ones first."""


class FcmMessage(TypedDict):
    """The part of an FCM message that doesn't depend on the device; `token`, `ttl` and the like go beside it.

    `apns` and `webpush` are for iPhones and browsers that are registered with FCM.
    """

    data: dict[str, str]
    android: dict[str, str]
    apns: NotRequired[dict[str, dict[str, object]]]
    webpush: NotRequired[dict[str, dict[str, object]]]


def background_fcm(data: dict[str, str]) -> FcmMessage:
    """Shows nothing. An iPhone that is reached by way of FCM is woken as one that is reached directly."""
    background: dict[str, dict[str, object]] = {
        "headers": {"apns-push-type": "background", "apns-priority": "5"},
        "payload": {"aps": {"content-available": 1}},
    }
    return {"data": data, "android": {"priority": "normal"}, "apns": background}


class Payload[Body](NamedTuple):
    """What one channel sends for one push: bytes, or for FCM a message. A truncated one is without its content.

    `priority` is the one that APNs is asked for, if it is not the usual one; an FCM message has its own. `transient` is
    as in `clarion.providers.order.Order`.
    """

    body: Body
    truncated: bool
    priority: int | None = None
    transient: bool = False


type Row = Mapping[str, Any]
"""Of a network's own table, as boto3 has its values: numbers are `Decimal`, and bytes `Binary`, which `bytes` takes."""


class PushAnswer(NamedTuple):
    """What became of an attempt to push, beside its outcome.

    `reason` is the provider's word, if it gave one. `registered_at` is the `created_at` of the subscription as it was
    pushed to, in UNIX milliseconds: of which of its tokens the answer is. None if there was no subscription.
    """

    reason: str | None = None
    registered_at: int | None = None


class Network(Protocol):
    """What is particular to a network. `number` is the first byte of each of its keys, and never changes.

    `channels` are those by which its subscriptions may be reached, where they are deployed: it has a payload for each.
    `limit` is the default for a sender and a client, if there is one. A network with `secret_conditions` has its rules'
    conditions recorded in the lake by a digest alone. Where envelopes are not `signed`, `verify` proves
    nothing. Subscriptions of an `additive` network name themselves, and hold a token beside any others: they neither take
    it from one nor keep it from one. `body` is the model of a push message's body. Pushes of its `own_purposes` it
    composes itself, without a body, where Clarion has pushes of its own for others: it has its own way to prove a token.
    With `newest`, match keeps an envelope in the row of `needs.body_table`, and its push has no body.
    """

    name: str
    number: int
    channels: Collection[Channel]
    limit: Limit | None
    secret_conditions: bool
    signed: bool
    additive: bool
    body: "type[BaseModel]"
    own_purposes: Collection[Purpose]
    newest: Newest | None

    @property
    def needs(self) -> "Needs":
        """What it needs of the account, from a module that no function imports at its start."""

    def decode(self, raw: bytes) -> Envelope:
        """Raises `Malformed`, and nothing else, for what the network can't have shown."""

    def verify(self, envelope: Envelope) -> EnvelopeDecision | None:
        """Why nobody may be woken for it; None if it is what it claims to be."""

    def wants(self, envelope: Envelope, rule: Rule, at: int) -> Wanted:
        """How the owner of `rule`, which names one of the envelope's keys, wants it. `at` is in UNIX milliseconds.

        Of a rule without a condition that depends on its key and the envelope alone.
        """

    def bytes_per_rule(self, envelope: Envelope) -> int:
        """How much `wants` hashes for one rule at most: an envelope of which it is much has smaller pages in match."""

    def may_want(self, envelope: Envelope) -> Collection[Wanted]:
        """Each answer that `wants` may give to a rule whose condition is secret."""

    def push_body(self, envelope: Envelope, key: bytes, channel: Channel) -> "BaseModel":
        """What travels to dispatch for an envelope wanted under `key`: what doesn't fit the channel is left behind here."""

    @property
    def body_of_row(self) -> "Callable[[PushMessage, Row], BaseModel | None] | None":
        """Makes the body of a push that came without one of what the row in `needs.body_table` holds now.

        None if that is nothing to send. A network without such a table has no such method, but None.
        """

    def payload(
        self, channel: Channel, push: "PushMessage", receiver: Receiver
    ) -> Payload[bytes] | Payload[FcmMessage]:
        """What the provider gets by one of `channels`, if it isn't sealed: at most the receiver's `payload_bytes`."""

    def on_outcome(self, push: "PushMessage", outcome: PushDecision, answer: PushAnswer) -> Command | None:
        """What a final outcome changes in the network's own state, as an order to its own function.

        What was not tried is still without a body if it came so.
        """

    def describe(self, rule: Rule) -> Mapping[str, str]:
        """What a rule names, for people to read, without what may be secret."""


class DeclaredNeeds:
    """A base of networks, whose needs lie in the module `needs` of their packages."""

    name: str

    @cached_property
    def needs(self) -> "Needs":
        found: Needs = import_module(f"{NETWORKS[self.name].rpartition('.')[0]}.needs").NEEDS
        return found


MAX_KEYS, MAX_KEY_BYTES, MAX_SENDER_BYTES = 64, 1_016, 1_024
"""What DynamoDB's keys have room for, beside what is stored with them; each key of an envelope is a query."""


def exceeds_bounds(envelope: Envelope) -> bool:
    """Whether a network's `decode` let through what the tables can't hold."""
    if len(envelope.id) != ID_BYTES or len(envelope.keys) > MAX_KEYS:
        return True
    return len(envelope.sender or b"") > MAX_SENDER_BYTES or max(map(len, envelope.keys), default=0) > MAX_KEY_BYTES


@cache
def network(name: str) -> Network:
    """Raises `LookupError` for a name that is not registered."""
    found: Network = import_module(NETWORKS[name]).NETWORK
    return found


@cache
def statuses_in_force(name: str) -> frozenset[SubscriptionStatus]:
    """In which statuses of a subscription its rules are in force. Raises `LookupError` as `network` does.

    Where the newest items are kept, also while it is pending: what comes before a new token is verified goes after.
    """
    active = frozenset({SubscriptionStatus.ACTIVE})
    return active if network(name).newest is None else active | {SubscriptionStatus.PENDING}
