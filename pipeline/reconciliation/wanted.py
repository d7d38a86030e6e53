"""How the rules of its time wanted an envelope.

rules in force ─────────────────────┐
envelopes, by each of their keys ───┴──▶ asked ──▶ with_answers ──▶ expected
"""

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.channels import Channel
from clarion.decisions import Wanted
from clarion.limiter import LATENESS
from clarion.networks import Rule, network
from pipeline.columns import NOTIFICATION_KEY
from pipeline.lake.dedup import judged_at
from pipeline.lake.schemas import in_spark
from pipeline.reconciliation.verify import fetched
from pipeline.spark.frames import NUMBERS, broadcast_if_few, literals, number_of, word_of

HOT_RULES = 100_000
"""A key that more rules name than this is spread over several tasks."""
SALTS = 16
_MAX_KEYS = 1 << 32
"""More than an envelope can have."""


REFUSALS = tuple(str(wanted) for wanted in Wanted if not wanted.pushes)
"""The answers that are decisions, too."""

_QUESTION = ("receipt", "key", "condition", "secret")
_CARRIED = ("network", "envelope_id", "sender", "keys", "client_id", "about")
_ANSWERS = pa.schema([
    ("receipt", pa.string()),
    ("key", pa.binary()),
    ("condition", pa.binary()),
    ("secret", pa.bool_()),
    ("answers", pa.list_(pa.string())),
])  # fmt: skip


def rules_naming(rules: DataFrame, envelopes: DataFrame) -> DataFrame:
    """The rules that name a key of some envelope, by 64 bits of hash: of all rules there are, usually few."""
    keys = envelopes.select(F.explode("keys").alias("key")).select(F.xxhash64("key").alias("hash")).distinct().persist()
    return rules.join(broadcast_if_few(keys, NUMBERS), on=F.xxhash64("key") == F.col("hash"), how="leftsemi")


def in_force_at(grace_ms: int) -> Column:
    """Whether a rule was in force when its envelope was decided, or `grace_ms` around that."""
    return (F.col("since") < F.col("last_at") + grace_ms) & (F.col("until") > F.col("first_at") - grace_ms)


def in_force_throughout(grace_ms: int) -> Column:
    """Whether it was all that time, and so long before and after."""
    return (F.col("since") <= F.col("first_at") - grace_ms) & (F.col("until") > F.col("last_at") + grace_ms)


def is_alive(grace_ms: int) -> Column:
    """Whether an envelope had not expired when it was decided, or not `grace_ms` before."""
    return F.col("expires_at") * 1000 > F.col("first_at") - grace_ms


def is_decided_soon() -> Column:
    """Whether a decision came so soon that `judged_at` is when its envelope was observed."""
    return judged_at() > F.col("at") - LATENESS // 2


def asked(envelopes: DataFrame, rules: DataFrame, *, grace_ms: int, hot_rules: int = HOT_RULES) -> DataFrame:
    """One row for each receipt, subscription and rule that may have been in force for one of the envelope's keys.

    `envelopes` have `receipt, network, envelope_id, sender, keys, plain, may, about, first_at, last_at`: between these
    two times the live path took its decisions. `rules` are as `rules.in_force` gives them. `certain` says that the rule was in force all
    that time, and `grace_ms` before and after; without it the live path may rightly have seen it or not, since an
    index lags behind its table and clocks differ. `place` is the key's among the envelope's. Of a condition that is
    `secret` only the digest is known. `answers` are null where the network has yet to be asked.
    """
    exploded = envelopes.select(
        "receipt",
        "network",
        "envelope_id",
        "sender",
        "keys",
        "plain",
        "may",
        "about",
        "first_at",
        "last_at",
        F.posexplode("keys").alias("place", "key"),
    )
    left, right = salted(exploded, rules, hot_rules)
    condition, secret = F.coalesce("condition", F.lit(b"")), F.col("condition_digest").isNotNull()
    matched = left.join(right, on=["key", "salt"], how="inner").where(in_force_at(grace_ms))
    return matched.select(
        *NOTIFICATION_KEY,
        *_CARRIED,
        "channel",
        "first_at",
        "last_at",
        "since",
        "until",
        "place",
        condition.alias("condition"),
        secret.alias("secret"),
        F.when(secret, F.col("may")).when(condition == F.lit(b""), F.array(F.get("plain", "place"))).alias("answers"),
        in_force_throughout(grace_ms).alias("certain"),
    )


def salted(envelopes: DataFrame, rules: DataFrame, hot_rules: int) -> tuple[DataFrame, DataFrame]:
    """Both sides with a `salt`, so that the many rules of a hot key don't all end in one task.

    Its few envelopes are repeated for each salt; for every other key the salt is 0 on both sides.
    """
    hot = rules.groupBy("key").count().where(F.col("count") > hot_rules).select("key", F.lit(True).alias("hot"))
    salts = F.when(F.col("hot"), F.sequence(F.lit(0), F.lit(SALTS - 1))).otherwise(F.array(F.lit(0)))
    left = envelopes.join(F.broadcast(hot), on="key", how="left").withColumn("salt", F.explode(salts)).drop("hot")
    salt = F.when(F.col("hot"), F.pmod(F.hash("subscription_id"), F.lit(SALTS))).otherwise(F.lit(0))
    right = rules.join(F.broadcast(hot), on="key", how="left").withColumn("salt", salt).drop("hot")
    return left, right


def with_answers(matched: DataFrame, observed: DataFrame, oversize: str | None) -> DataFrame:
    """What was `asked`, with `answers`: the network's one, or each that it may give if the condition is secret.

    `observed` is the lake's kind. Its bytes are read once more, of those envelopes alone that a condition is about.
    """
    rules = F.collect_set(F.struct("key", "condition", "secret")).alias("rules")
    unanswered = matched.where(F.col("answers").isNull()).drop("answers").withColumn("key", F.get("keys", "place"))
    asking = unanswered.groupBy("receipt").agg(F.min("first_at").alias("decided_at"), rules).persist()
    if asking.isEmpty():
        return matched
    rows = observed.select("receipt", "network", "raw", "location").join(broadcast_if_few(asking), on="receipt")
    answers = rows.mapInArrow(partial(answer_batches, oversize=oversize), in_spark(_ANSWERS))
    once = answers.dropDuplicates(list(_QUESTION))
    answered = unanswered.join(once, on=list(_QUESTION), how="left")
    return matched.where(F.col("answers").isNotNull()).unionByName(answered.select(matched.columns))


def expected(answered: DataFrame) -> DataFrame:
    """One row for each receipt and subscription, of what `with_answers` gives: how the envelope was wanted.

    Of several rules, `wanted` is of the least rank, and `key` the first of those that push; what was certainly in
    force comes before what may have been. `certain` says that a rule was surely in force that pushes or, its condition
    being secret, may push. If none may push, `refusal` says why not. `refusals` are there if it depends on a secret
    alone: then any of these decisions may be right as well.

    All that is aggregated are numbers and flags: of these Spark keeps a table of hashes, and of anything else it sorts
    the rows. They are spread by receipt, as the decisions are, with which they are compared.
    """
    pushing = literals(wanted for wanted in Wanted if wanted.pushes)
    may_push, pushes = F.arrays_overlap("answers", pushing), F.size(F.array_except("answers", pushing)) == 0
    usefulness = F.when(pushes, 0).when(may_push, 1).otherwise(2)
    best = F.min((2 * usefulness + (~F.col("certain")).cast("int")) * _MAX_KEYS + F.col("place"))
    rank = F.when(F.size("answers") == 1, number_of(Wanted, F.col("answers")[0])).otherwise(-1)
    given = (F.when(F.max(F.array_contains("answers", word)), word) for word in REFUSALS)
    refusals = F.array_compact(F.array(*given))
    secret_decides = F.max(may_push & ~pushes) & ~F.max(pushes & F.col("certain"))
    each = answered.repartition("receipt").groupBy(*NOTIFICATION_KEY, *_CARRIED)
    found = each.agg(
        word_of(Channel, F.min(number_of(Channel, F.col("channel")))).alias("channel"),
        (best % _MAX_KEYS).cast("int").alias("place"),
        word_of(Wanted, F.min(F.when(pushes, rank))).alias("wanted"),
        F.max(may_push & F.col("certain")).alias("certain"),
        F.when(~F.max(may_push), F.concat_ws(" or ", refusals)).alias("refusal"),
        F.when(secret_decides, refusals).alias("refusals"),
    )
    return found.withColumn("key", F.get("keys", "place")).drop("keys", "place")


def answer_batches(batches: Iterable[pa.RecordBatch], oversize: str | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch.to_pylist()
        raws = fetched(oversize, (row["raw"] for row in rows), (row["location"] for row in rows))
        found = [answer for row, raw in zip(rows, raws, strict=True) if raw for answer in _answers(row, raw)]
        yield pa.RecordBatch.from_pylist(found, schema=_ANSWERS)


def _answers(row: dict[str, object], raw: bytes) -> Iterator[dict[str, object]]:
    """How each of the rules that name an envelope wants it."""
    match row:
        case {"network": str(name), "decided_at": int(at), "rules": list(rules)}:
            shown_by = network(name)
        case _:
            raise TypeError(f"no observation: {row['receipt']}")
    envelope = shown_by.decode(raw)
    for rule in rules:
        known = Rule(rule["key"], rule["condition"])
        answers = shown_by.may_want(envelope) if rule["secret"] else [shown_by.wants(envelope, known, at)]
        yield {"receipt": row["receipt"], **rule, "answers": [str(wanted) for wanted in answers]}
