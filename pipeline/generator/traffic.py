"""What was said: signed statements, and some that are not what they should be."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import sha256, shake_128
from random import Random
from typing import NamedTuple

import pyarrow as pa
import sr25519
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from clarion.networks.statements.codec import Proof, ProofKind, Statement
from clarion.networks.statements.signature import Keypair, sign
from pipeline.generator.people import TOPICS, popular, topic_key
from pipeline.generator.plan import Plan
from pipeline.lake.schemas import in_spark
from pipeline.period import DAY_MS, HOUR_MS

FLOOD = 70
"""Statements in a flood, one each 150 ms."""
KNOWN = 6_000
"""Of 10,000 statements, so many are by senders that some rule may name."""
LASTING = 0xFFFFFFFF << 32
_STEP_MS = 150
_MONTH = 30 * 24 * 3600
OF_FLOODS = 1 << 40
"""Where the numbers of flooding statements begin."""
EARLIER = 1 << 41
"""Where those begin that were shown before the day."""
AGES = (10 * 60_000, 3 * DAY_MS, 29 * DAY_MS, 31 * DAY_MS)
"""Of the earlier ones when they are shown again: just after midnight, and around the longest time that a claim lives."""
_SIGNED = pa.schema([("raw", pa.binary()), ("envelope_id", pa.binary()), ("sender", pa.binary())])
_KEYS = 1 << 19
"""Of so many senders each process keeps the keys: they cost as much to make as two thirds of a signature."""


class Draft(NamedTuple):
    m: int
    author: int
    kind: str
    observed_at: int
    topic_key: bytes


def drafts(spark: SparkSession, plan: Plan) -> DataFrame:
    """`m, author, topic, kind, flood, observed_at, again_at`: all about a statement but its bytes."""
    return _ordinary(spark, plan).unionByName(_floods(spark, plan)).unionByName(_earlier(spark, plan))


def signed(drafted: DataFrame, plan: Plan) -> DataFrame:
    """The drafts with `raw, envelope_id, sender`. Other bytes at each evaluation: write them down."""
    needed = drafted.withColumn("topic_key", topic_key(plan))
    schema = StructType([*drafted.schema, *in_spark(_SIGNED)])
    return needed.mapInArrow(partial(_sign_batches, names=drafted.columns, seed=plan.seed), schema)


def observations(made: DataFrame, plan: Plan) -> DataFrame:
    """A row for each time that a statement was shown, with its `receipt`, `copy` and `observed_at`."""
    times = F.when(F.col("again_at").isNull(), F.array("observed_at")).otherwise(F.array("observed_at", "again_at"))
    shown = made.select(
        "m", "author", "topic", "kind", "flood", "raw", "envelope_id", "sender",
        F.col("again_at").isNotNull().alias("shown_twice"), F.posexplode(times).alias("copy", "observed_at"),
    )  # fmt: skip
    return shown.withColumn("receipt", plan.uuid("receipt", "m", "copy"))


def senders(spark: SparkSession, plan: Plan) -> DataFrame:
    """`author, sender`."""
    count = plan.senders + plan.floods
    numbers = spark.range(count).select(F.col("id").alias("author"))
    return numbers.mapInArrow(partial(_key_batches, seed=plan.seed), "author long, sender binary")


def _ordinary(spark: SparkSession, plan: Plan) -> DataFrame:
    numbers = spark.range(plan.statements).withColumnRenamed("id", "m")
    chance = plan.chance("time", "m")
    # Busier by day than by night; the last hour is left for what is shown again.
    time = (chance + 0.12 * F.sin(2 * F.pi() * chance)) * (1 - HOUR_MS / plan.span)
    throw = plan.dice("kind", "m")
    kind = F.lit("ordinary")
    for name, below in (("lasting", 900), ("expired", 200), ("foreign", 150), ("malformed", 100), ("forged", 60)):
        kind = F.when(throw < below, F.lit(name)).otherwise(kind)
    again = (throw >= 1_000) & (plan.dice("again", "m") < 200)
    later = F.col("observed_at") + 600_000 + (1_800_000 * plan.chance("again_at", "m")).cast("long")
    chance = plan.chance("author", "m")
    stranger = F.floor(plan.senders + plan.floods + chance * plan.strangers)
    known = plan.dice("known", "m") < KNOWN
    return numbers.select(
        "m",
        F.when(known, popular(chance, plan)).otherwise(stranger).alias("author"),
        (F.lit(TOPICS) * plan.chance("topic", "m")).cast("long").alias("topic"),
        kind.alias("kind"),
        F.lit(False).alias("flood"),
        plan.moment(time).alias("observed_at"),
        again.alias("again"),
    ).select("*", F.when(F.col("again"), later).alias("again_at")).drop("again")  # fmt: skip


def _floods(spark: SparkSession, plan: Plan) -> DataFrame:
    """In the first half of the day, before any outage."""
    floods = spark.range(plan.floods).withColumnRenamed("id", "number")
    each = floods.select("number", F.explode(F.sequence(F.lit(0), F.lit(FLOOD - 1))).alias("place"))
    begin = plan.moment(0.05 + 0.4 * F.col("number") / max(1, plan.floods))
    return each.select(
        (F.lit(OF_FLOODS) + F.col("number") * FLOOD + F.col("place")).alias("m"),
        (F.col("number") + plan.senders).alias("author"),
        F.lit(0).cast("long").alias("topic"),
        F.lit("ordinary").alias("kind"),
        F.lit(True).alias("flood"),
        (begin + F.col("place") * _STEP_MS).alias("observed_at"),
        F.lit(None).cast("long").alias("again_at"),
    )


def _earlier(spark: SparkSession, plan: Plan) -> DataFrame:
    """Of each of `AGES` as many, shown again in the first half of the day, before any outage; they never expire."""
    number, ages = F.col("id"), F.array(*map(F.lit, AGES))
    age = F.element_at(ages, (number % len(AGES) + 1).cast("int"))
    again_at = F.when(age == AGES[0], F.lit(plan.start + AGES[0] // 2)).otherwise(
        plan.moment(0.1 + number / max(1, plan.earlier) / 10)
    )
    return spark.range(plan.earlier).select(
        (F.lit(EARLIER) + number).alias("m"),
        popular(plan.chance("earlier_author", "id"), plan).alias("author"),
        (F.lit(TOPICS) * plan.chance("earlier_topic", "id")).cast("long").alias("topic"),
        F.lit("lasting").alias("kind"),
        F.lit(False).alias("flood"),
        (again_at - age).alias("observed_at"),
        again_at.alias("again_at"),
    )


def _sign_batches(batches: Iterable[pa.RecordBatch], names: Sequence[str], seed: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        drafted = zip(*(batch.column(name).to_pylist() for name in Draft._fields), strict=True)
        made = zip(*(signed_draft(Draft(*draft), seed) for draft in drafted), strict=True)
        columns = map(pa.array, made, _SIGNED.types)
        yield pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), *columns], [*names, *_SIGNED.names])


def signed_draft(draft: Draft, seed: int) -> tuple[bytes, bytes, bytes | None]:
    """`raw, envelope_id, sender`."""
    statement = _statement(draft, keypair(seed, draft.author))
    return statement.encoded + b"!" * (draft.kind == "malformed"), statement.hash, statement.signer


def _statement(draft: Draft, keys: Keypair) -> Statement:
    m, _, kind, observed_at, topic = draft
    dice = Random(m)  # noqa: S311 - made-up data
    size = int(dice.lognormvariate(5.2, 0.6))
    data = shake_128(m.to_bytes(8)).digest(min(size, 2_000))
    topics = (sha256(topic).digest(), topic) if dice.random() < 0.2 else (topic,)
    now = observed_at // 1000
    expiry = LASTING if kind == "lasting" else (now + (-3_600 if kind == "expired" else _MONTH)) << 32
    statement = sign(Statement(expiry | (m & 0xFFFFFFFF), topics, data, channel=None), keys)
    if kind == "forged":
        return statement._replace(data=data[::-1] + b"\0")
    if kind == "foreign":
        public, _ = keys
        return statement._replace(proof=Proof(ProofKind.ED25519, bytes(64), public))
    return statement


@lru_cache(_KEYS)
def keypair(seed: int, author: int) -> Keypair:
    keys: Keypair = sr25519.pair_from_seed(sha256(f"{seed}/sender/{author}".encode()).digest())
    return keys


def _key_batches(batches: Iterable[pa.RecordBatch], seed: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        publics = [keypair(seed, author)[0] for author in batch.column("author").to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [batch.column("author"), pa.array(publics, pa.binary())], names=["author", "sender"]
        )
