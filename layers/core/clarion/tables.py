"""The DynamoDB tables as pynamodb models. Table and column meanings: docs/architecture.md, "Data".

Call `bind` once, before the first request. Keys are bytes; instants are UNIX milliseconds; `ttl` is in UNIX seconds.
DynamoDB removes expired items up to days late, so whoever reads one tests its expiry as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError
from pynamodb.attributes import BinaryAttribute, BooleanAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.exceptions import DoesNotExist, PutError, PynamoDBException, TransactWriteError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from clarion import aws

BATCH_GET_ITEMS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""
TRANSACTION_SUBSCRIPTIONS = 33
"""A transaction takes 100 items; a subscription, its token and its wake-up are three."""
GENERATION_BYTES = 8
WINDOW_PART = b"\x00"
"""Sorts before every part that is named by an instant of this millennium."""
_LOST_RACE = {"ConditionalCheckFailed", "TransactionConflict"}


WITHOUT_TOKEN = ["subscription_id", "client_id", "channel", "app", "status", "generation", "revision"]
"""All of a subscription that may be read by who neither pushes to it nor changes it."""


class BySubscriptionClient(GlobalSecondaryIndex["Subscription"]):
    """A client's subscriptions."""

    class Meta:
        index_name = "by_client"
        projection = KeysOnlyProjection()

    client_id = BinaryAttribute(hash_key=True, legacy_encoding=False)
    subscription_id = UnicodeAttribute(range_key=True)


class Subscription(Model):
    """A client's registration of one push token, to which its pushes are sent.

    `revision` grows with every change of the rules; a new generation is numbered by the revision that claims it.
    `replaced` is the youngest generation that replaced the whole set, whatever was in force before it.
    It has been there since `began_at`; `created_at` is when its token was registered last.
    `app` and `environment` say where the token is good; without them it is the first app, in production.
    A subscription that is neither pending nor active has no rules. A pending one holds no row of `tokens`. An active one
    has no `ttl`, but for that of `clarion send-test`. One that is reserved for a registration to come is pending and has
    an empty `token`; its `channel` says nothing.
    `network_data` is its network's own, which nobody else reads. `device_key` (X25519) seals its pushes. It is woken every
    `wake_every_minutes`, if at all.
    `proof_…` are about the code that was pushed last: its SHA-256, until when it is good (ms), how often another was handed
    back, the receipt of its push, what became of that push (`PushDecision`), and the mask of the code in its message.
    """

    class Meta:
        table_name = "subscriptions"

    subscription_id = UnicodeAttribute(hash_key=True)
    client_id = BinaryAttribute(legacy_encoding=False)
    network = UnicodeAttribute()
    channel = UnicodeAttribute()
    token = UnicodeAttribute()
    app = UnicodeAttribute(null=True)
    environment = UnicodeAttribute(null=True)
    status = UnicodeAttribute()
    status_reason = UnicodeAttribute(null=True)
    generation = NumberAttribute()
    rule_count = NumberAttribute()
    revision = NumberAttribute(default=0)
    replaced = NumberAttribute(default=0)
    began_at = NumberAttribute(default=0)
    created_at = NumberAttribute()
    updated_at = NumberAttribute()
    network_data = BinaryAttribute(null=True, legacy_encoding=False)
    device_key = BinaryAttribute(null=True, legacy_encoding=False)
    wake_every_minutes = NumberAttribute(null=True)
    proof_hash = BinaryAttribute(null=True, legacy_encoding=False)
    proof_until = NumberAttribute(null=True)
    proof_attempts = NumberAttribute(null=True)
    proof_receipt = UnicodeAttribute(null=True)
    proof_push = UnicodeAttribute(null=True)
    proof_mask = BinaryAttribute(null=True, legacy_encoding=False)
    ttl = NumberAttribute(null=True)

    by_client = BySubscriptionClient()

    @classmethod
    def actions_of(cls, changes: Mapping[str, Any]) -> list[Action]:
        return actions_of(cls, changes)

    def __repr__(self) -> str:
        return f"Subscription({self.subscription_id})"


class Token(Model):
    """Says to which one subscription of a holder a token belongs; written in one transaction with it.

    A holder is a network, or one subscription of a network: see `clarion.tokens.holder_of`. The same token may wake its
    phone for several, and its death ends all their subscriptions.
    """

    class Meta:
        table_name = "tokens"

    token_hash = BinaryAttribute(hash_key=True, legacy_encoding=False)
    holder = UnicodeAttribute(range_key=True)
    subscription_id = UnicodeAttribute()
    client_id = BinaryAttribute(legacy_encoding=False)


class ByKey(GlobalSecondaryIndex["RuleRow"]):
    """All rules that name a key, of whatever generation, each with its condition."""

    class Meta:
        index_name = "by_key"
        projection = IncludeProjection(["condition"])

    key = BinaryAttribute(hash_key=True, legacy_encoding=False)
    subscription_id = UnicodeAttribute(range_key=True)
    rule_key = BinaryAttribute(legacy_encoding=False)
    condition = BinaryAttribute(null=True, legacy_encoding=False)


class RuleRow(Model):
    """What a subscription asks for: see `clarion.networks.Rule`. It counts only while its generation is its subscription's."""

    class Meta:
        table_name = "rules"

    subscription_id = UnicodeAttribute(hash_key=True)
    rule_key = BinaryAttribute(range_key=True, legacy_encoding=False)
    key = BinaryAttribute(legacy_encoding=False)
    condition = BinaryAttribute(null=True, legacy_encoding=False)

    by_key = ByKey()


class PushRecord(Model):
    """Claims an envelope for a subscription: whoever writes it first may push.

    The subscription comes first, so that the claims of one envelope for a crowd share no partition.
    """

    class Meta:
        table_name = "push_records"

    subscription_id = UnicodeAttribute(hash_key=True)
    envelope_id = BinaryAttribute(range_key=True, legacy_encoding=False)
    receipt = UnicodeAttribute()
    claimed_at = NumberAttribute()
    ttl = NumberAttribute()


class PageLock(Model):
    """Locks a page of a fan-out for the message with `token`. It lies among the push records: `page` is no UUID."""

    class Meta:
        table_name = PushRecord.Meta.table_name

    page = UnicodeAttribute(hash_key=True, attr_name=PushRecord.subscription_id.attr_name)
    envelope_id = BinaryAttribute(range_key=True, legacy_encoding=False)
    token = UnicodeAttribute()
    ttl = NumberAttribute()


class RateLimit(Model):
    """What the limits remember, packed by `clarion.limiter`.

    Under a pair, named by `pair_scope`, lies its window in the part `WINDOW_PART`, and in parts named by
    `limit_part` the admissions that the window had no more room for: none of them counts for later than `paged_until`.
    Under a subscription's UUID (16 bytes) lie, in parts named likewise, the times of pushes that were queued for it.
    """

    class Meta:
        table_name = "rate_limits"

    scope = BinaryAttribute(hash_key=True, legacy_encoding=False)
    part = BinaryAttribute(range_key=True, legacy_encoding=False)
    admitted = BinaryAttribute(legacy_encoding=False)
    cooldowns = BinaryAttribute(null=True, legacy_encoding=False)
    paged_until = NumberAttribute(null=True)
    version = NumberAttribute(null=True)
    ttl = NumberAttribute()


class Lease(Model):
    """Says that the task called `name` is at work, for as long as it goes on raising `version`, the time in UNIX ms.

    It is connected to sources of so many `networks`. One that has `ended` has handed over. All that it was shown before
    `delivered_through`, of its own shards, has been delivered. A row with a `holder` is a `PartLease`.
    """

    class Meta:
        table_name = "leases"

    name = UnicodeAttribute(hash_key=True)
    version = NumberAttribute()
    delivered_through = NumberAttribute()
    networks = NumberAttribute(default=0)
    ended = BooleanAttribute(default=False)
    ttl = NumberAttribute()
    holder = UnicodeAttribute(null=True, attr_name="held_by")


class PartLease(Model):
    """In the table of leases: the task called `holder` does the part of the work called `name`, as long as it is at work.

    `version` is when it began to, in UNIX milliseconds. A part's name holds a slash, and no task's does.
    """

    class Meta:
        table_name = "leases"

    name = UnicodeAttribute(hash_key=True)
    holder = UnicodeAttribute(attr_name="held_by")
    version = NumberAttribute()


class Quota(Model):
    """How much of an allowance is used up, such as a client's requests of ten seconds, or a challenge's single use."""

    class Meta:
        table_name = "quotas"

    quota = UnicodeAttribute(hash_key=True)
    used = NumberAttribute()
    ttl = NumberAttribute()


class WakeUp(Model):
    """An entry of `clarion.wake_ups`, which says what lies in which slot.

    `network`, `channel` and `client_id` are those of a subscription that is to be woken. `minute` is when a period was last
    asked for; of the schedule's own row, which minute has begun. Its `late` is the last one before which others had been
    left out, and `after` the last one that had begun before those.
    """

    class Meta:
        table_name = "wake_ups"

    slot = UnicodeAttribute(hash_key=True)
    subscription_id = UnicodeAttribute(range_key=True)
    network = UnicodeAttribute(null=True)
    channel = UnicodeAttribute(null=True)
    client_id = BinaryAttribute(null=True, legacy_encoding=False)
    minute = NumberAttribute(null=True)
    late = NumberAttribute(null=True)
    after = NumberAttribute(null=True)


MODELS: tuple[type[Model], ...] = (Subscription, Token, RuleRow, PushRecord, RateLimit, Quota, Lease, WakeUp)
"""One for each table."""
_BARE_NAMES = {model: model.Meta.table_name for model in MODELS}
"""Once bound, a model has another."""


def table_name(prefix: str, model: type[Model]) -> str:
    return f"{prefix}{_BARE_NAMES.setdefault(model, model.Meta.table_name)}"


def bind(
    prefix: str,
    *,
    pool: int = aws.POOL,
    seconds: float | None = aws.ANSWER_SECONDS,
    own: Sequence[type[Model]] = (),
) -> Connection:
    """Point the models at one deployment's tables, such as `clarion-prod-subscriptions` for `clarion-prod-`.

    `own` are those of a network, of which several may be of one table. They share the connection that is returned, for
    up to `pool` requests at once. A request that takes more than `seconds` is tried once more and then fails. With None,
    pynamodb's own time-out of minutes applies: for what runs as long as it takes. By itself pynamodb makes a client for
    each model, and each takes as long to make as the import of half the SDK.
    """
    attempts = None if seconds is None else 1
    connection = Connection(
        max_pool_connections=pool,
        connect_timeout_seconds=seconds,
        read_timeout_seconds=seconds,
        max_retry_attempts=attempts,
    )
    aws.prepare(connection.session)
    # Made now: pynamodb has a session for each thread, and another thread's would not be the prepared one.
    _ = connection.client
    bound = set[str]()
    models: tuple[type[Model], ...] = (*MODELS, PartLease, *own)
    for model in models:
        model.Meta.table_name = table_name(prefix, model)
        table = model._get_connection()  # noqa: SLF001 - pynamodb offers no public way to it
        if model.Meta.table_name not in bound:
            connection.add_meta_table(table.get_meta_table())
        bound.add(model.Meta.table_name)
        table.connection = connection
    PageLock.Meta.table_name = PushRecord.Meta.table_name
    return connection


def find_row[Row: Model](
    model: type[Row], hash_key: str, range_key: str | int | None = None, *, consistent_read: bool = True
) -> Row | None:
    """None if there is no row with this key."""
    try:
        return model.get(hash_key, range_key, consistent_read=consistent_read)
    except DoesNotExist:
        return None


def find_subscription(subscription_id: str, attributes: list[str] | None = None) -> Subscription | None:
    """The row as it is now; with `attributes`, these of it alone."""
    rows = Subscription.batch_get([subscription_id], consistent_read=True, attributes_to_get=attributes)
    return next(iter(rows), None)


def update_subscription(subscription_id: str, *actions: Action, condition: Condition) -> Subscription | None:
    """The row as it is afterwards; None if the condition does not hold."""
    row = Subscription(subscription_id)
    return row if update_if(row, *actions, condition=condition) else None


def actions_of(model: type[Model], changes: Mapping[str, Any]) -> list[Action]:
    """Sets the attributes of these names, and removes those whose value is None."""
    named = ((getattr(model, name), value) for name, value in changes.items())
    return [attribute.remove() if value is None else attribute.set(value) for attribute, value in named]


def update_if(row: Model, *actions: Action, condition: Condition) -> bool:
    """Whether the condition holds; if it doesn't, nothing changes. `row` is as it is afterwards."""
    try:
        row.update(list(actions), condition=condition)
    except UpdateError as error:
        if refused(error):
            return False
        raise
    return True


def save_if(row: Model, *, condition: Condition) -> bool:
    """Whether the condition holds; if it doesn't, nothing is written."""
    try:
        row.save(condition=condition)
    except PutError as error:
        if refused(error):
            return False
        raise
    return True


def unchanged(row: Subscription) -> Condition:
    """The condition that neither its rules and state nor its token have changed since `row` was read."""
    same = (Subscription.revision == row.revision) & (Subscription.status == row.status)
    condition: Condition = same & (Subscription.token == row.token)
    return condition


def transact(connection: Connection, write: Callable[[TransactWrite], None]) -> bool:
    """False if one of the items has meanwhile changed."""
    try:
        with TransactWrite(connection=connection) as transaction:
            write(transaction)
    except TransactWriteError as error:
        if lost_race(error):
            return False
        raise
    return True


def rule_key(generation: int, key: bytes) -> bytes:
    """The generation (8 bytes, big-endian), then the key; so a subscription's rules lie together by generation."""
    return generation.to_bytes(GENERATION_BYTES) + key


def split_rule_key(key: bytes) -> tuple[int, bytes]:
    """Undo `rule_key`."""
    return int.from_bytes(key[:GENERATION_BYTES]), key[GENERATION_BYTES:]


def pair_scope(network_number: int, sender: bytes, client_id: bytes) -> bytes:
    """Names a pair's window: the network's number, the sender after its length (2 bytes), the client."""
    return bytes([network_number]) + len(sender).to_bytes(2) + sender + client_id


def limit_part(instant: int, name: bytes = b"") -> bytes:
    """A part of a `RateLimit`: its latest instant (6 bytes, big-endian), and a name, unique for that instant."""
    return max(instant, 0).to_bytes(6) + name


def error_code(error: PynamoDBException) -> str | None:
    """What DynamoDB answered, such as `ConditionalCheckFailedException`; None if it gave no answer.

    pynamodb's own `cause_response_code` fails for a time-out, whose cause has a `response` of None.
    """
    return error.cause.response["Error"]["Code"] if isinstance(error.cause, ClientError) else None


def refused(error: PynamoDBException) -> bool:
    """Whether it was the condition of the write that failed."""
    return error_code(error) == "ConditionalCheckFailedException"


def lost_race(error: TransactWriteError) -> bool:
    """Whether somebody else changed one of the items meanwhile, or was about to."""
    return any(reason and reason.code in _LOST_RACE for reason in error.cancellation_reasons)


def met_transaction(error: Exception) -> bool:
    """Whether it was a write of one item, which transactions were changing at each attempt."""
    return isinstance(error, PynamoDBException) and error_code(error) == aws.CONFLICT
