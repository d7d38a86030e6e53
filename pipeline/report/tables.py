"""`report_tables`: what happened in a period, as tables small enough for one page."""

from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from clarion import own_pushes
from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from pipeline.columns import NOTIFICATION_KEY, EventKind
from pipeline.in_force.rules import in_force
from pipeline.in_force.states import states_since
from pipeline.lake.commits import read_manifest
from pipeline.lake.dedup import decided_once, last_decisions
from pipeline.lake.event_lake import EventLake, differences_name
from pipeline.lake.schemas import DIFFERENCE
from pipeline.lake.small_tables import read_tables
from pipeline.period import HOUR_MS, Period, arrivals
from pipeline.prices import FIREHOSE_BYTE, FIREHOSE_RECORD_BYTES, READ_UNIT, SQS_REQUEST, WRITE_UNIT
from pipeline.report.funnel import clamped_to, full_hour, notifications
from pipeline.terms import JUDGED

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
TOP = 10
EXAMPLES = 3
NUMBER_OR_ID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+(\.[0-9]+)?"
MILLION = 1_000_000
_ACCURACY = 10_000


class Units(NamedTuple):
    """What is billed: the tables' read and write units, messages to SQS, records to Firehose."""

    reads: float = 0
    writes: float = 0
    sent: float = 0
    records: float = 0

    @property
    def dollars(self) -> float:
        """For a million."""
        tables = self.reads * READ_UNIT + self.writes * WRITE_UNIT
        return tables + self.sent * SQS_REQUEST + self.records * FIREHOSE_RECORD_BYTES * FIREHOSE_BYTE


_RECORDED = Units(records=1)
_LOOKED_UP = Units(reads=0.5, records=1)

PER_DECISION = {
    "envelope/malformed": _RECORDED,
    "envelope/unsupported_proof": _RECORDED,
    "envelope/expired": _RECORDED,
    "envelope/bad_signature": _RECORDED,
    "envelope/unmatched": _LOOKED_UP,
    "envelope/matched": _LOOKED_UP,
    # The subscription is read; the record is the envelope's.
    "notification/own_message": Units(reads=0.5),
    "notification/not_pushable": Units(reads=0.5),
    "notification/not_in_scope": Units(reads=0.5),
    # And the pair's window.
    "notification/rate_limited": Units(reads=1),
    "notification/capped": Units(reads=1),
    "notification/duplicate": Units(reads=1, writes=1),
    "notification/queued": Units(reads=1, writes=2, sent=1),
    # Dispatch reads the subscription, and emits an event in a record of its own.
    "push/delivered": _LOOKED_UP,
    # What was sent with another push costs the row's read; what was sent before, no more.
    "push/coalesced": Units(reads=1.5, records=1),
    "push/token_gone": Units(reads=0.5, writes=4, records=1),
    "push/retry": Units(reads=0.5, sent=1, records=1),
    "push/refused": _LOOKED_UP,
    "push/stale": _RECORDED,
    "push/subscription_gone": _LOOKED_UP,
    "push/misconfigured": Units(reads=0.5, sent=1, records=1),
    # By the way of a command, whose price is the request's.
    "push/received": _RECORDED,
}
"""What each decision costs, by stage, as the ledger of docs/cost.md has it: the tables, what is sent on, and the events.

Each counts as if it came one at a time, so a busy hour costs less. As in the paths through match there, the Lambdas'
time and what SQS bills for receiving are not in it.
"""


def report_tables(lake: EventLake, period: Period, now: int) -> dict[str, pa.Table]:
    """The tables by name.

    Only if `reconcile` has been run for this period there are `differences`, `examples` and those of `terms`.
    """
    since = arrivals(period, now)
    decided = lake.read(EventKind.NOTIFICATION, since)
    tried = lake.read(EventKind.PUSH, since).dropDuplicates([*NOTIFICATION_KEY, "attempt", "decision"])

    def in_period(kind: EventKind, rows: DataFrame) -> DataFrame:
        """Persisted, unless the lake has no file of the kind: of a persisted frame Spark doesn't know that it is empty."""
        found = rows.where(period.has(F.col("at")))
        return found.persist() if lake.view.files(kind, since) else found

    envelopes = in_period(EventKind.ENVELOPE, last_decisions(lake.read(EventKind.ENVELOPE, since)))
    notified = in_period(EventKind.NOTIFICATION, decided_once(decided))
    pushes = in_period(EventKind.PUSH, tried)
    judged = read_manifest(lake.root, differences_name(period))
    found = lake.read_commit(judged, DIFFERENCE) if judged else None
    rules = in_force(
        states_since(lake, EventKind.RULES, period.start, now),
        states_since(lake, EventKind.SUBSCRIPTION, period.start, now),
    )
    tables = {
        "notifications": notifications(decided, tried, found, period),
        "latency": latency(pushes, "hour"),
        "latency_whole": latency(pushes),
        "drops": drops(envelopes, notified, pushes),
        "dead_tokens": dead_tokens(pushes),
        "senders": senders(notified),
        "rules": rules_by_hour(rules, period),
        "cost": cost(envelopes, notified, pushes),
    }
    if found is not None:
        tables |= {"differences": by_hour(found, period), "examples": examples(found)}
    collected = {name: table.toArrow() for name, table in tables.items()}
    if judged:
        collected |= read_tables(lake.root, judged, JUDGED)
    for frame in (envelopes, notified, pushes):
        frame.unpersist()
    return collected


def by_hour(found: DataFrame, period: Period) -> DataFrame:
    """`hour, difference, network, count`."""
    dated = found.withColumn("at", clamped_to(period)).select(full_hour(), "difference", "network")
    return dated.groupBy("hour", "difference", "network").count().orderBy("hour", "difference", "network")


def examples(found: DataFrame) -> DataFrame:
    """For each kind and network, one difference for each of its most frequent evidences, of the hour with most of them.

    Evidence is the same but for the numbers and ids in it; `alike` counts the differences that have it. `sender` in hex.
    """
    kind = ("difference", "network")
    sender = F.lower(F.hex("sender")).alias("sender")
    row = F.struct("at", *NOTIFICATION_KEY, "channel", sender, "evidence")
    alike = F.regexp_replace(F.coalesce("evidence", F.lit("")), NUMBER_OR_ID, "#").alias("wording")
    hour = F.floor(F.col("at") / HOUR_MS).alias("hour")
    hours = found.groupBy(*kind, alike, hour).agg(F.count("*").alias("count"), F.min(row).alias("row"))
    worst = F.max_by("row", F.struct("count", -F.col("hour"))).alias("row")
    evidences = hours.groupBy(*kind, "wording").agg(F.sum("count").alias("alike"), worst)
    most = Window.partitionBy(*kind).orderBy(F.desc("alike"), "wording")
    chosen = evidences.withColumn("place", F.row_number().over(most)).where(F.col("place") <= EXAMPLES)
    return chosen.orderBy(*kind, "place").select(*kind, "alike", "row.*")


def latency(pushes: DataFrame, *by: str) -> DataFrame:
    """`p50, p90, p99, count` in milliseconds from observed to delivered, by `channel` and `by`; not of Clarion's own."""
    own = F.coalesce("purpose", F.lit("")).isin(*map(str, own_pushes.BODIES))
    delivered = pushes.where((F.col("decision") == PushDecision.DELIVERED) & ~own)
    values = [F.percentile_approx("latency_ms", share, _ACCURACY).alias(name) for name, share in PERCENTILES.items()]
    dated = delivered.select(full_hour(), "channel", "latency_ms")
    return dated.groupBy(*by, "channel").agg(*values, F.count("*").alias("count")).orderBy(*by, "channel")


def drops(envelopes: DataFrame, notified: DataFrame, pushes: DataFrame) -> DataFrame:
    """`stage, decision, reason, count` of all that went no further; `unmatched` is how it should be."""
    parts = (
        (envelopes, "envelope", [EnvelopeDecision.MATCHED]),
        (notified, "notification", [NotificationDecision.QUEUED]),
        (pushes, "push", [PushDecision.DELIVERED, PushDecision.RECEIVED, PushDecision.RETRY]),
    )
    ended = (_ended(rows, stage, [str(word) for word in passed]) for rows, stage, passed in parts)
    return reduce(DataFrame.unionByName, ended).groupBy("stage", "decision", "reason").count().orderBy(F.desc("count"))


def dead_tokens(pushes: DataFrame) -> DataFrame:
    """`hour, channel, subscriptions` whose token turned out to be dead."""
    gone = pushes.where(F.col("decision") == PushDecision.TOKEN_GONE)
    dated = gone.select(full_hour(), "channel", "subscription_id")
    counted = dated.groupBy("hour", "channel").agg(F.countDistinct("subscription_id").alias("subscriptions"))
    return counted.orderBy("hour", "channel")


def senders(notified: DataFrame) -> DataFrame:
    """`sender, notifications, receivers, rate_limited`: the heaviest and the most limited, in hex; where there is one."""
    limited = F.count_if(F.col("decision") == NotificationDecision.RATE_LIMITED).alias("rate_limited")
    counted = (
        notified.where(F.col("sender").isNotNull())
        .groupBy("sender")
        .agg(F.count("*").alias("notifications"), F.approx_count_distinct("client_id").alias("receivers"), limited)
    )
    named = counted.select(F.lower(F.hex("sender")).alias("sender"), "notifications", "receivers", "rate_limited")
    heaviest = named.orderBy(F.desc("notifications")).limit(TOP)
    most_limited = named.where(F.col("rate_limited") > 0).orderBy(F.desc("rate_limited")).limit(TOP)
    return heaviest.unionByName(most_limited).distinct().orderBy(F.desc("notifications"))


def rules_by_hour(rules: DataFrame, period: Period) -> DataFrame:
    """`hour, rules` in force at each full hour of the period."""
    hours = rules.sparkSession.range(period.start, period.end, HOUR_MS).withColumnRenamed("id", "moment")
    steps = rules.select(F.col("since").alias("moment"), F.lit(1).alias("step")).unionByName(
        rules.select(F.col("until").alias("moment"), F.lit(-1).alias("step"))
    )
    # The first full hour at which a step shows: all before the period shows at its start.
    shows = F.greatest(F.lit(period.start), F.ceil(F.col("moment") / HOUR_MS) * HOUR_MS)
    net = steps.where(F.col("moment") < period.end).groupBy(shows.alias("shows")).agg(F.sum("step").alias("net"))
    grown = hours.join(F.broadcast(net), on=F.col("shows") <= F.col("moment"), how="left")
    counted = grown.groupBy("moment").agg(F.coalesce(F.sum("net"), F.lit(0)).alias("rules"))
    return counted.select(F.col("moment").alias("hour"), "rules").orderBy("hour")


def cost(envelopes: DataFrame, notified: DataFrame, pushes: DataFrame) -> DataFrame:
    """`stage, decision, count, dollars`, by what each decision costs."""
    dollars = {decision: units.dollars / MILLION for decision, units in PER_DECISION.items()}
    prices = F.create_map(*(F.lit(part) for price in dollars.items() for part in price))
    stages = (("envelope", envelopes), ("notification", notified), ("push", pushes))
    counts = [
        rows.groupBy("decision").count().select(F.lit(stage).alias("stage"), "decision", "count")
        for stage, rows in stages
    ]
    counted = reduce(DataFrame.unionByName, counts)
    price = F.coalesce(prices[F.concat_ws("/", "stage", "decision")], F.lit(0.0))
    return counted.withColumn("dollars", price * F.col("count")).orderBy(F.desc("dollars"))


def _ended(rows: DataFrame, stage: str, passed: list[str]) -> DataFrame:
    reason = F.col("reason") if stage == "push" else F.lit(None).cast("string")
    ended = rows.where(~F.col("decision").isin(*passed))
    return ended.select(F.lit(stage).alias("stage"), "decision", reason.alias("reason"))
