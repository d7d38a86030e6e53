"""Carry forward what is in force: an object of the lake expires by its age, but a rule lasts until it is removed.

Likewise a subscription until it is removed, and limits until others are loaded.

S3 deletes an object so many days after it was written. Before half of that time has passed, each line that is still in
force is therefore written again, below today. What has been replaced or removed is not, and expires.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipeline import limits
from pipeline.commits import add_files
from pipeline.lake import HOME, EventLake, in_schema
from pipeline.period import DAY_MS, hour_path
from pipeline.rules import CONDITION, REMOVED, latest_subscriptions
from pipeline.schemas import EventKind

CARRIED = "carried"
"""The `hour` of what was carried forward. `compact` writes the hours of arrival anew, and so never touches this one."""
_EVENT = ("at", "network", "change", "subscription_id", "generation", "revision")
_GENERATION = ("subscription_id", "generation")


def carry_forward(lake: EventLake, now: int, keep_days: int) -> dict[EventKind, int]:
    """Write again what is in force and was last written half of `keep_days` ago or earlier; the lines, by kind."""
    # What is older should have expired: how it ended may be forgotten by now, and it must not come back.
    due = F.col("day").between(_day(now - keep_days * DAY_MS), _day(now - keep_days * DAY_MS // 2))
    subscriptions = held_subscriptions(lake.read_dated(EventKind.SUBSCRIPTION)).persist()
    rules = held_rules(lake.read_dated(EventKind.RULES), subscriptions)
    old = {
        EventKind.SUBSCRIPTION: subscriptions.where(due),
        EventKind.RULES: as_lines(rules.where(due)),
        EventKind.LIMITS: held_limits(lake.read_dated(EventKind.LIMITS)).where(due),
    }
    try:
        return {kind: _write(lake, kind, lines, now) for kind, lines in old.items()}
    finally:
        subscriptions.unpersist()


def held_subscriptions(changes: DataFrame) -> DataFrame:
    """The last line of each subscription that is not removed, with the `day` on which it was last written."""
    return latest_subscriptions(_last_written(changes.drop("hour"))).where(F.col("status") != REMOVED)


def held_rules(changes: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """One row for each rule in the generation of one of `subscriptions`, with the `day` on which it was last written."""
    each = _last_written(changes.select(*_EVENT, "day", F.inline("rules")))
    in_order = F.struct("revision", "at", "change")
    last = F.max_by(F.struct(*(F.col(name) for name in each.columns)), in_order).alias("last")
    lasting = each.groupBy(*_GENERATION, "key").agg(last).select("last.*").where(F.col("change") != REMOVED)
    return lasting.join(subscriptions.select(*_GENERATION), on=list(_GENERATION), how="leftsemi")


def held_limits(loaded: DataFrame) -> DataFrame:
    """The last line of each network, with the `day` on which it was last written."""
    return limits.latest(_last_written(loaded.drop("hour")))


def as_lines(rules: DataFrame) -> DataFrame:
    """The lake's kind `rules`, from a row for each rule."""
    together = F.collect_list(F.struct("key", *CONDITION)).alias("rules")
    return rules.groupBy(*_EVENT).agg(together)


def _last_written(rows: DataFrame) -> DataFrame:
    """Equal rows as one, with the last `day` among theirs."""
    return rows.groupBy(*(name for name in rows.columns if name != "day")).agg(F.max("day").alias("day"))


def _write(lake: EventLake, kind: EventKind, lines: DataFrame, now: int) -> int:
    """Beside what was carried forward earlier today."""
    hour = f"{_day(now)}/{CARRIED}"
    written = lake.write_files(kind, lines.select(F.lit(hour).alias(HOME), *in_schema(kind)))
    for files in written.values():
        add_files(lake.root, hour, {kind: files})
    lake.view.refresh()
    return sum(each.lines for files in written.values() for each in files)


def _day(instant: int) -> str:
    return hour_path(instant).partition("/")[0]
