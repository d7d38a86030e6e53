"""XMTP's part of the day: messages in groups, their senders' own among them, and what needs no push.

Each group has three inboxes. The first has two installations, the second one; they gave their keys, of which the lake has
digests, so that nobody can judge whether a message was their own. The third inbox's installation gave none: it wants its
own messages, too. Some senders' clocks are in another period than the node's. A second showing, by another task, is of the
same message.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256, shake_128

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from clarion.channels import Channel
from clarion.decisions import EnvelopeDecision, NotificationDecision, SubscriptionStatus
from clarion.networks import XMTP, Rule
from clarion.networks.xmtp import decode, sender_hmac_key_v3
from clarion.networks.xmtp.rules import TopicCondition, key_of, pack
from clarion.networks.xmtp.sender_hmac import KEY_SIZE_V3, PERIOD_S, period_at, sender_hmac
from clarion.networks.xmtp.topics import group_topic
from clarion.networks.xmtp.wire_pb2 import GroupMessage, NodeEnvelope
from clarion.subscription_events import RuleRef
from pipeline.columns import EventKind
from pipeline.generator import faults, live
from pipeline.generator.plan import DICE, Keep, Made, Plan
from pipeline.in_force.limits import default_span
from pipeline.period import DAY_MS

MEMBERS, INBOXES = 4, 3
"""Installations and inboxes of a group."""
_AGAIN_MS = 2_000
_REACTIONS, _ODD_CLOCKS, _SHOWN_TWICE = DICE // 5, DICE // 10, DICE // 50
_ANSWERED = (NotificationDecision.QUEUED, NotificationDecision.OWN_MESSAGE)
_GROUP_ID_BYTES = 16
_MESSAGES_OF_GROUP = 25
_MADE = pa.schema([("m", pa.int64()), ("raw", pa.binary()), ("envelope_id", pa.binary()), ("topic", pa.binary())])
_RULES = pa.schema([("sub", pa.int64()), ("key", pa.binary()), ("condition_digest", pa.binary())])

type Batches = Iterable[pa.RecordBatch]


def make(spark: SparkSession, plan: Plan, keep: Keep) -> Made:
    crowd = keep("members", members(spark, plan))
    made = keep("messages", sealed(drafts(spark, plan), plan))
    shown = live.decided(observations(made, plan), plan)
    wanted = keep("wanted_messages", wants(shown, crowd, plan))
    notified = keep("notified_messages", with_faults(notifications(wanted), plan))
    matched = shown.select("receipt", F.lit(str(EnvelopeDecision.MATCHED)).alias("decision"))
    kinds = {
        EventKind.OBSERVED: live.observed(shown),
        EventKind.ENVELOPE: live.envelopes(shown, matched),
        EventKind.NOTIFICATION: live.notification_rows(notified.where(~faults.of("undecided")), F.col("key")),
        EventKind.PUSH: live.pushes(faults.tried(notified), plan),
        EventKind.SUBSCRIPTION: _registered(crowd, plan),
        EventKind.RULES: _subscribed(crowd, plan),
        EventKind.LIMITS: live.limits(spark, default_span(XMTP), plan.start - DAY_MS),
    }
    nothing = notified.where(F.lit(False))
    answered = notified.where(F.col("decision").isin(*_ANSWERED))
    swallowed = faults.missed(wanted.where(~F.col("reaction")), answered)
    return Made(XMTP, kinds, faults.answers(notified, nothing, swallowed))


def members(spark: SparkSession, plan: Plan) -> DataFrame:
    """`sub, group, inbox, keyed, subscription_id, client_id, channel, key, condition_digest`."""
    numbers = spark.range(MEMBERS * _groups(plan)).withColumnRenamed("id", "sub")
    ruled = numbers.mapInArrow(
        partial(_rule_batches, seed=plan.seed, at=plan.start // 1000), "sub long, key binary, condition_digest binary"
    )
    inbox = F.greatest(F.col("sub") % MEMBERS - 1, F.lit(0))
    return ruled.select(
        "sub",
        (F.col("sub") / MEMBERS).cast("long").alias("group"),
        inbox.alias("inbox"),
        F.col("condition_digest").isNotNull().alias("keyed"),
        plan.uuid("installation", "sub").alias("subscription_id"),
        plan.key("installation", "sub").alias("client_id"),
        F.when(F.col("sub") % 2 == 0, Channel.APNS).otherwise(Channel.FCM).alias("channel"),
        "key",
        "condition_digest",
    )


def drafts(spark: SparkSession, plan: Plan) -> DataFrame:
    """`m, group, author, reaction, clock, shown_twice, observed_at`: all about a message but its bytes.

    `clock` is how many periods the sender is ahead of the node.
    """
    numbers = spark.range(plan.messages).withColumnRenamed("id", "m")
    clock = plan.dice("clock", "m")
    return numbers.select(
        "m",
        F.floor(_groups(plan) * plan.chance("group", "m")).alias("group"),
        F.floor(INBOXES * plan.chance("inbox", "m")).alias("author"),
        (plan.dice("reaction", "m") < _REACTIONS).alias("reaction"),
        F.when(clock < _ODD_CLOCKS, F.pmod(clock, F.lit(2)) * 2 - 1).otherwise(0).alias("clock"),
        (plan.dice("message again", "m") < _SHOWN_TWICE).alias("shown_twice"),
        plan.moment(0.01 + 0.98 * plan.chance("message", "m")).alias("observed_at"),
    )


def sealed(drafted: DataFrame, plan: Plan) -> DataFrame:
    """The drafts with `raw, envelope_id, sender`."""
    needed = drafted.select("m", "group", "author", "reaction", "clock", "observed_at")
    made = needed.mapInArrow(
        partial(_seal_batches, seed=plan.seed), "m long, raw binary, envelope_id binary, topic binary"
    )
    return drafted.join(made.withColumnRenamed("topic", "sender"), on="m", how="inner")


def observations(made: DataFrame, plan: Plan) -> DataFrame:
    """A row for each showing, with its `receipt`, `copy` and `observed_at`."""
    again = F.array("observed_at", F.col("observed_at") + _AGAIN_MS)
    times = F.when(F.col("shown_twice"), again).otherwise(F.array("observed_at"))
    shown = made.select(
        "m", "group", "author", "reaction", "clock", "shown_twice", "raw", "envelope_id", "sender",
        F.lit("ordinary").alias("kind"), F.posexplode(times).alias("copy", "observed_at"),
    )  # fmt: skip
    return shown.withColumn("receipt", plan.uuid("message receipt", "m", "copy"))


def wants(shown: DataFrame, crowd: DataFrame, plan: Plan) -> DataFrame:
    """Each showing with each installation of its group; `own` if a key that it gave matches the HMAC."""
    sent_in = F.floor(F.col("observed_at") / (1000 * PERIOD_S)) + F.col("clock")
    has_key = F.col("keyed") & (F.abs(sent_in - period_at(plan.start // 1000)) <= 1)
    own = has_key & (F.col("author") == F.col("inbox"))
    nothing = (F.lit(None).cast("long").alias(name) for name in ("until", "invalid_at", "flips_at", "dies_at", "order"))
    return shown.drop("raw").join(crowd, on="group", how="inner").select(
        "m", "copy", "receipt", "kind", "reaction", "shown_twice", "outage", "observed_at", "decided_at",
        "envelope_id", "sender", "sub", "subscription_id", "client_id", "channel", "key", "keyed", own.alias("own"),
        F.lit(plan.start - DAY_MS).alias("since"), *nothing, F.lit(None).cast("boolean").alias("counted"),
    )  # fmt: skip


def notifications(wanted: DataFrame) -> DataFrame:
    """The wants that were decided on, with `decision`."""
    same = Window.partitionBy("m", "sub").orderBy("decided_at", "copy")
    decision = (
        F.when(F.col("own"), NotificationDecision.OWN_MESSAGE)
        .when(F.col("reaction"), NotificationDecision.NOT_PUSHABLE)
        .when(F.row_number().over(same) == 1, NotificationDecision.QUEUED)
        .otherwise(NotificationDecision.DUPLICATE)
    )
    return wanted.where(~F.col("outage")).withColumn("decision", decision)


def with_faults(notified: DataFrame, plan: Plan) -> DataFrame:
    """The notifications with the `fault` that befalls each, if any, and the `decision` as it was recorded.

    Where keys may show an own message, either decision may be right, but none at all is a fault.
    """
    queued, own = (
        F.col("decision") == word for word in (NotificationDecision.QUEUED, NotificationDecision.OWN_MESSAGE)
    )
    once, throw = ~F.col("shown_twice"), plan.dice("message fault", "m", "sub")
    fault = F.when(once & F.col("reaction") & (throw < plan.faults.unwanted), F.lit("unwanted"))
    decidable, top = queued | (own & ~F.col("reaction")), 0
    for name, whom in (("lost", queued), ("late", queued), ("undecided", decidable), ("misjudged", queued)):
        share = getattr(plan.faults, name)
        fault = fault.when(once & whom & throw.between(top, top + share - 1), F.lit(name))
        top += share
    found = notified.withColumn("fault", fault)
    refused = F.when(F.col("keyed"), NotificationDecision.NOT_PUSHABLE).otherwise(NotificationDecision.OWN_MESSAGE)
    recorded = F.when(faults.of("misjudged"), refused).when(faults.of("unwanted"), NotificationDecision.QUEUED)
    return found.withColumn("decision", F.coalesce(recorded, "decision"))


def _registered(crowd: DataFrame, plan: Plan) -> DataFrame:
    """The lake's kind `subscription`."""
    return crowd.select(
        F.lit(plan.start - 2 * DAY_MS).alias("at"), "subscription_id", "client_id", "channel",
        F.lit(str(SubscriptionStatus.ACTIVE)).alias("status"), F.lit(None).cast("string").alias("status_reason"),
        *_first(),
    )  # fmt: skip


def _subscribed(crowd: DataFrame, plan: Plan) -> DataFrame:
    """The lake's kind `rules`."""
    rule = F.struct("key", F.lit(None).cast("binary").alias("condition"), "condition_digest")
    at, change = F.lit(plan.start - DAY_MS).alias("at"), F.lit("added").alias("change")
    return crowd.select(at, change, "subscription_id", *_first(), F.array(rule).alias("rules"))


def _groups(plan: Plan) -> int:
    return max(1, plan.messages // _MESSAGES_OF_GROUP)


def _first() -> list[Column]:
    return [F.lit(1).cast("long").alias(name) for name in ("generation", "revision")]


def _rule_batches(batches: Batches, seed: int, at: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [{"sub": sub, **_rule(seed, sub, period_at(at))} for sub in batch.column("sub").to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_RULES)


def _rule(seed: int, sub: int, period: int) -> dict[str, bytes | None]:
    group, member = divmod(sub, MEMBERS)
    keys = {near: _key(seed, group, max(0, member - 1), near) for near in (period - 1, period, period + 1)}
    condition = b"" if member == MEMBERS - 1 else pack(TopicCondition(keys, silent=member == 1))
    ref = RuleRef.of(Rule(key_of(group_topic(_group_id(seed, group))), condition), secret=True)
    return {"key": ref.key, "condition_digest": ref.condition_digest}


def _seal_batches(batches: Batches, seed: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_sealed(seed, **row) for row in batch.to_pylist()], schema=_MADE)


def _sealed(  # noqa: PLR0913 - each by name
    seed: int, *, m: int, group: int, author: int, reaction: bool, clock: int, observed_at: int
) -> dict[str, object]:
    group_id, data = _group_id(seed, group), shake_128(m.to_bytes(8)).digest(200 + m % 800)
    made = sender_hmac(_key(seed, group, author, period_at(observed_at // 1000) + clock), data)
    sent = GroupMessage.V1(group_id=group_id, data=data, sender_hmac=made, should_push=not reaction)
    envelope = NodeEnvelope(
        content_topic=group_topic(group_id),
        timestamp_ns=observed_at * 1_000_000,
        message=GroupMessage(v1=sent).SerializeToString(),
    )
    raw = envelope.SerializeToString()
    return {"m": m, "raw": raw, "envelope_id": decode(raw).id, "topic": envelope.content_topic.encode()}


def _key(seed: int, group: int, inbox: int, period: int) -> bytes:
    root = shake_128(f"{seed}/inbox/{group}/{inbox}".encode()).digest(KEY_SIZE_V3)
    return sender_hmac_key_v3(root, _group_id(seed, group), period)


def _group_id(seed: int, group: int) -> bytes:
    return sha256(f"{seed}/group/{group}".encode()).digest()[:_GROUP_ID_BYTES]
