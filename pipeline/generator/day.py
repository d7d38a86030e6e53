"""Put a made-up day together and write it into a lake."""

from collections.abc import Iterator, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clarion.decisions import EnvelopeDecision, NotificationDecision
from pipeline.columns import VERSION, EventKind
from pipeline.generator import faults, live, people, traffic, xmtp
from pipeline.generator.plan import NETWORK, Made, Plan
from pipeline.generator.writing import declare_complete, hour_columns, write_kind
from pipeline.lake.event_lake import EventLake, escape_glob
from pipeline.lake.raw import RAW, arrived_files
from pipeline.lake.schemas import RULE, SCHEMAS
from pipeline.period import DAY_MS, HOUR_MS, arrivals

_MADE = "made"
_BUFFERED_MS = 90_000
_DELAYED_MS = 3 * DAY_MS
_OUTCOMES = (EventKind.ENVELOPE, EventKind.NOTIFICATION, EventKind.PUSH)
_QUEUED = str(NotificationDecision.QUEUED)


def generate(lake: EventLake, plan: Plan, *, compacted: bool = False) -> None:
    """Write the day as the stream would leave it or, if `compacted`, as Parquet at once; and its answers."""
    kinds = make(lake, plan)
    if compacted:
        for kind, rows in kinds.items():
            write_kind(lake, kind, rows.select("*", *hour_columns(F.col("at") + _BUFFERED_MS)))
    else:
        write_raw(lake, kinds, plan)
    seal_hours(lake, plan, compacted=compacted)


def seal_hours(lake: EventLake, plan: Plan, *, compacted: bool) -> None:
    """Say of the hours in which the day's lines arrive how much there is: in quiet ones nothing.

    What the stream's files hold is left to `compact`.
    """
    arrival = arrivals(plan.period, plan.period.end + 2 * HOUR_MS)
    in_files = set() if compacted else set(arrived_files(lake.root, arrival))
    declare_complete(lake.root, set(arrival.hours()) - in_files, arrival.end)
    lake.view.refresh()


def answers(lake: EventLake) -> DataFrame:
    """`receipt, subscription_id, difference`: what a reconciliation of the day should find."""
    return lake.spark.read.parquet(escape_glob(lake.path(f"{_MADE}/answers")))


def make(lake: EventLake, plan: Plan) -> dict[EventKind, DataFrame]:
    """The rows of each kind, of all networks."""
    parts = [_statements(lake, plan)]
    if plan.messages:
        parts.append(xmtp.make(lake.spark, plan, partial(_kept, lake)))
    _kept(lake, "answers", reduce(DataFrame.unionByName, (part.answers for part in parts)))
    return {kind: reduce(DataFrame.unionByName, _rows(parts, kind)) for kind in EventKind}


def _rows(parts: Sequence[Made], kind: EventKind) -> Iterator[DataFrame]:
    for part in parts:
        yield part.kinds[kind].withColumn("network", F.lit(part.network))


def _statements(lake: EventLake, plan: Plan) -> Made:
    """Each step is written down, since signatures differ each time and plans would grow."""
    spark = lake.spark
    made = _kept(lake, "statements", traffic.signed(traffic.drafts(spark, plan), plan))
    shown = live.decided(traffic.observations(made, plan), plan)
    crowd = _kept(lake, "people", people.subscriptions(spark, plan))
    rules = _kept(lake, "rules", people.rules(crowd, plan))
    wanted = _kept(lake, "wanted", live.wants(shown.drop("raw"), rules, crowd))
    deaths = _kept(lake, "deaths", live.deaths(wanted))
    wanted = wanted.join(deaths, on="sub", how="left")
    alive = F.col("invalid_at").isNull() | (F.col("decided_at") < F.col("invalid_at"))
    healthy = wanted.where(live.in_force() & F.col("kind").isin(*live.GENUINE) & ~F.col("outage") & alive)
    with_faults = _kept(lake, "with_faults", faults.with_faults(live.notifications(healthy, plan.limit), plan))
    intruding = _kept(lake, "intruding", faults.intruders(wanted, plan).withColumn("decision", F.lit(_QUEUED)))
    notified = with_faults.unionByName(intruding, allowMissingColumns=True).withColumn("decision", _as_recorded())
    kinds = {
        EventKind.OBSERVED: live.observed(shown),
        EventKind.ENVELOPE: live.envelopes(shown, _of_envelopes(notified)),
        EventKind.NOTIFICATION: live.notification_rows(
            notified.where(~faults.of("undecided", "misjudged")), people.rule_key(plan)
        ),
        EventKind.PUSH: live.pushes(faults.tried(notified), plan),
        EventKind.SUBSCRIPTION: people.subscription_changes(crowd, deaths, plan),
        EventKind.RULES: people.rule_changes(crowd, rules, traffic.senders(spark, plan), plan),
        EventKind.LIMITS: live.limits(spark, plan.limits, plan.begun),
    }
    queued = with_faults.where(F.col("decision") == _QUEUED)
    return Made(NETWORK, kinds, faults.answers(with_faults, intruding, faults.missed(wanted, queued)))


def _kept(lake: EventLake, name: str, rows: DataFrame) -> DataFrame:
    path = lake.path(f"{_MADE}/{name}")
    rows.write.mode("overwrite").parquet(path)
    return lake.spark.read.schema(rows.schema).parquet(escape_glob(path))


def write_raw(lake: EventLake, kinds: dict[EventKind, DataFrame], plan: Plan) -> None:
    """JSON lines as Firehose leaves them, by the hour of arrival: some come an hour or days late, some come twice."""
    lines = reduce(DataFrame.unionByName, (_lines(rows, kind, plan) for kind, rows in kinds.items()))
    throw = plan.dice("arrival", "value")
    soon = F.col("at") + _BUFFERED_MS
    late = soon + HOUR_MS
    arrivals = (
        F.when(F.col("delayed"), F.array(soon + _DELAYED_MS))
        .when(throw < 100, F.array(late))
        .when(throw < 200, F.array(soon, late))
        .otherwise(F.array(soon))
    )
    arrived = lines.select("value", F.explode(arrivals).alias("arrived"))
    rows = arrived.select("value", *hour_columns(F.col("arrived"))).hint("rebalance", "day", "hour")
    rows.write.mode("overwrite").partitionBy("day", "hour").option("compression", "gzip").text(lake.path(RAW))


def _lines(rows: DataFrame, kind: EventKind, plan: Plan) -> DataFrame:
    """As `clarion.events` writes them: what is null is left out."""
    fields = [_as_json(F.col(field.name), field.name, rows).alias(field.name) for field in SCHEMAS[kind].fields]
    line = F.to_json(F.struct(F.lit(VERSION).alias("version"), F.lit(str(kind)).alias("event"), *fields))
    delayed = plan.dice("delayed", "receipt") < plan.delayed if kind in _OUTCOMES else F.lit(False)
    return rows.select(line.alias("value"), F.col("at").cast("long").alias("at"), delayed.alias("delayed"))


def _as_json(value: Column, name: str, rows: DataFrame) -> Column:
    if name == "raw":
        # Spark breaks the line after each 76 characters.
        return F.translate(F.base64(value), "+/\r\n", "-_")
    if name == "rules":
        return F.transform(value, _rule_as_json)
    return F.lower(F.hex(value)) if rows.schema[name].dataType.typeName() == "binary" else value


def _rule_as_json(rule: Column) -> Column:
    return F.struct(*(F.lower(F.hex(rule[name])).alias(name) for name in RULE.names))


def _as_recorded() -> Column:
    recorded = (
        F.when(faults.of("limited"), NotificationDecision.RATE_LIMITED)
        .when(faults.of("outstayed"), NotificationDecision.DUPLICATE)
        .when(faults.of("repeated", "overrun"), NotificationDecision.QUEUED)
    )
    return recorded.otherwise(F.col("decision"))


def _of_envelopes(notified: DataFrame) -> DataFrame:
    decision = F.when(faults.of("misjudged"), EnvelopeDecision.BAD_SIGNATURE).otherwise(EnvelopeDecision.MATCHED)
    return notified.groupBy("receipt").agg(F.min(decision).alias("decision"))
